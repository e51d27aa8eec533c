# The root module and those nested in it, each with a go.mod of its own.
MODULES := . $(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod -not -path './.cache/*' -not -path './internal/testserver/*' | sort))

# A server that the tests build: no code of ours is in it.
SERVERS := internal/testserver/etcd

# It must know the Go in use: raise it together with Go.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# $(call each,COMMAND[,MODULES]) runs COMMAND for every module m, all of them even if one fails.
each = @failed=0; for m in $(or $(2),$(MODULES)); do $(1) || failed=1; done; exit $$failed

# Everything, race-checked, against real servers; a missing server is a failure.
# Two packages at a time, since they mostly wait. Those whose servers start a process
# or a thread for each session come one after the other, beside the nested modules.
GOTEST := test -race -short -count=1 -vet=off
DATABASES := ./mysql ./pg
.PHONY: test test-library test-databases test-nested
test: export FENCELOCK_TEST_REQUIRE = 1
test: servers
	$(call each,go -C $$m vet -race ./...)
	@$(MAKE) --no-print-directory test-library
	@$(MAKE) --no-print-directory -k -j2 -Otarget test-databases test-nested

test-library:
	go $(GOTEST) -p 2 $$(go list ./... | grep -vxF "$$(go list $(DATABASES))")

test-databases:
	go $(GOTEST) -p 1 $(DATABASES)

test-nested:
	$(call each,go -C $$m $(GOTEST) -p 1 ./...,$(filter-out .,$(MODULES)))

# The long rounds, without -short, twenty times.
.PHONY: soak
soak: export FENCELOCK_TEST_REQUIRE = 1
soak: export FENCELOCK_TEST_SOAK = 1
soak: servers
	go test -race -count=20 -p 1 -timeout 3h ./internal/lease ./mem ./redis ./redlock

.PHONY: bench
bench: servers
	$(call each,go -C $$m test -run '^$$' -bench . -benchmem -p 1 ./...)

# Workers, servers and links are stopped, killed, cut and robbed, and what everybody
# saw is checked: make torture SEED=1 BACKEND=redis DURATION=90s
SEED := 1
BACKEND := redis
DURATION := 90s
.PHONY: torture torture-mustfail
torture: servers
	go -C internal/torture test -v -count=1 -timeout 0 -run TestTorture . -seed $(SEED) -backend $(BACKEND) -duration $(DURATION)

# The same with one guard switched off at a time: each must be seen.
torture-mustfail: servers
	go -C internal/torture test -v -count=1 -timeout 0 -run TestSabotage .

# The coupon sale: make coupon ARGS='-d 3s -json'
.PHONY: coupon
coupon:
	go -C examples run ./coupon $(ARGS)

.PHONY: lint fmt tidy vet staticcheck
lint: fmt tidy vet staticcheck

fmt:
	@unformatted=$$(gofmt -l .) && [ -z "$$unformatted" ] || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }

tidy:
	$(call each,go -C $$m mod tidy -diff,$(MODULES) $(SERVERS))

vet:
	$(call each,go -C $$m vet -race ./...)

# -race, as with the tests: a new machine compiles everything once.
staticcheck:
	@GOBIN=$(CURDIR)/.cache/bin go install $(STATICCHECK)
	$(call each,(cd $$m && GOFLAGS=-race $(CURDIR)/.cache/bin/staticcheck ./...))

# Installs what the tests start and this machine lacks.
.PHONY: servers
servers:
	@scripts/servers
