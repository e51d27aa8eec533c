// Adds an offset to the wall clock of the program that this library is preloaded into. The offset, an int64 of
// nanoseconds, lies in the file named by FENCELOCK_CLOCK, which the test maps and changes while the program runs.
// Raw system calls on purpose: looking the real functions up would allocate, and the allocator may ask for the time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static const int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
	const char *path = getenv("FENCELOCK_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		offset = p;
}

static int now(clockid_t clock, struct timespec *ts) {
	int r = syscall(SYS_clock_gettime, clock, ts);
	if (r == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		int64_t ns = ts->tv_sec * SECOND + ts->tv_nsec + __atomic_load_n(offset, __ATOMIC_RELAXED);
		ts->tv_sec = ns / SECOND;
		ts->tv_nsec = ns % SECOND;
	}
	return r;
}

int clock_gettime(clockid_t clock, struct timespec *ts) { return now(clock, ts); }

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec ts;
	int r = now(CLOCK_REALTIME, &ts);
	(void)zone;
	if (r == 0 && tv) {
		tv->tv_sec = ts.tv_sec;
		tv->tv_usec = ts.tv_nsec / 1000;
	}
	return r;
}

time_t time(time_t *t) {
	struct timespec ts;
	now(CLOCK_REALTIME, &ts);
	if (t)
		*t = ts.tv_sec;
	return ts.tv_sec;
}
