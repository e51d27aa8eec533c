//go:build unix

package main

const overview = `A lock is held at a server while a program runs, renewed in the background, and
released when the program has ended. If the lock is lost on the way, the program
is ended. Every hold has a fencing token, a number that grows with each: a store
that compares it can refuse the writes of a program that was overtaken.

The servers are given by --on or, better, by FENCELOCK_ON:

  redis://[USER:PASSWORD@]HOST[:PORT][/DB]      rediss:// for TLS
  redis+cluster://HOST,HOST...
  redis+sentinel://HOST,HOST.../MASTER[/DB]     ?sentinel_password=... for the sentinels' own
  redis+redlock://HOST,HOST,HOST[/DB]           independent masters, an odd number
  postgres://...                                as for psql: a lease in a table
  postgres+advisory://...  postgres+row://...   a lock of a session
  mysql://USER:PASSWORD@HOST[:PORT]/DB          likewise: mysql+advisory, mysql+row
  etcd://[USER:PASSWORD@]HOST,HOST,HOST         etcds:// for TLS
  zk://[USER:PASSWORD@]HOST,HOST,HOST

The locks are those of the Go library of the same name: a program that uses it
and a job under this command exclude each other, given the same servers,
prefix and name.`

const aboutRun = `Waits for the lock, runs the program with FENCELOCK_NAME and FENCELOCK_TOKEN in its
environment, and releases the lock when the program has ended. The program is in
a process group of its own, which gets every signal that fencelock gets.

If the lock is lost, or --max-hold is over, the group gets TERM and, after
--grace, KILL. A loss is noticed before another can have the lock, unless
this machine or process was asleep; in the time of grace, another may have
it. So let the program hand FENCELOCK_TOKEN to its store with each write, and
the store refuse lower ones.

What the program leaves running when it ends well is not waited for. As process 1
of a container fencelock collects orphans as an init does. If fencelock itself is
killed by KILL, on Linux the program is killed too, and the lock expires with its
TTL.`

const afterRun = `
EXIT STATUS:
   the program's own, 128 + n if signal n has ended it, and
   64   usage: nothing was done
   69   the servers cannot be reached or refuse to work: the program was not started
   70   the lock was lost while the program ran, however that ended
   75   somebody else holds the lock: the program was not started
   124  --max-hold was over
   126, 127  the program cannot be run, or is not there
   128 + n   signal n came while fencelock waited for the lock

EXAMPLES:
   One of many machines runs the job, the others skip it:
      fencelock run --name nightly --try -- ./job.sh --all

   In a crontab, a busy lock being no failure:
      fencelock run --name nightly --try -- ./job.sh || [ $? -eq 75 ]

   Half an hour at most, and wait for a minute for those before:
      fencelock run --name import --wait 1m --max-hold 30m -- ./import
`

const aboutStatus = `Asks the servers. The exit status is 0 whether somebody holds the lock or not, 69 if
they do not answer. "since" is by the server's clock. With --json the token is a
string, since it may have more digits than a JSON number keeps.`

const aboutRelease = `Ends the hold of whoever has the lock now, and prints the status after it: the lock is
free, or with the next that waited for it.

The holder is not asked. It is told as of any loss: within a second, or with its next
renewal, a third of its TTL. Until then, and after that if it does not listen, it works
on. What it writes is refused only by stores that compare tokens, and by them only
from the moment when a newer token has come to them. So do this when you know
that the holder is dead or hangs, or that a fence guards what it writes; a dead
holder's lock goes by itself, when its TTL is over.

Between a look and the release the lock may change hands: with --token only the hold
that status has shown is ended.`

const aboutMigrate = `Creates the tables that locks in PostgreSQL and MySQL need, if they are not there. It
may be run again. Other servers need none, and are refused.`
