# The root module and those nested in it, each with a go.mod of its own.
MODULES := . $(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod -not -path './.cache/*' -not -path './internal/testserver/*' | sort))

# A server that the tests build: no code of ours is in it.
SERVERS := internal/testserver/etcd

# It must know the Go in use: raise it together with Go.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# $(call each,COMMAND[,MODULES]) runs COMMAND for every module m, all of them even if one fails.
each = @failed=0; for m in $(or $(2),$(MODULES)); do $(1) || failed=1; done; exit $$failed

# Everything, race-checked, against real servers; a missing server is a failure.
# The first line compiles on all cores and vets. The library's tests run one
# package at a time: they measure time, and a neighbour would disturb them.
.PHONY: test
test: export FENCELOCK_TEST_REQUIRE = 1
test: servers
	$(call each,go -C $$m vet -race ./... && \
		go -C $$m test -race -short -count=1 -vet=off -p $$([ $$m = . ] && echo 1 || echo 2) ./...)

# The long rounds, without -short, twenty times.
.PHONY: soak
soak: export FENCELOCK_TEST_REQUIRE = 1
soak: export FENCELOCK_TEST_SOAK = 1
soak: servers
	go test -race -count=20 -p 1 -timeout 3h ./internal/lease ./mem ./redis ./redlock

.PHONY: bench
bench: servers
	$(call each,go -C $$m test -run '^$$' -bench . -benchmem -p 1 ./...)

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
