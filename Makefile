# Everything a developer types. `make test` is what CI runs.
GO ?= go
GOFLAGS_STATIC := -trimpath -ldflags '-s -w'
# Packages whose goroutines meet; they are tested with the race detector.
RACE := ./internal/store/... ./internal/engine/... ./internal/fieldmanager/... ./internal/authn/... ./internal/authz/... ./internal/chain/... \
	./internal/allocation/... ./internal/kubernetesservice/... ./internal/controllers/... ./internal/crd/... ./internal/server/... ./internal/admission/... ./internal/audit/... \
	./internal/catalog/... ./internal/inprocess/... ./internal/keys/... ./internal/flowcontrol/... ./internal/remote/... ./internal/egress/... ./internal/cel/... ./internal/tracing/... ./internal/span/... ./internal/live/... ./pkg/...

build:
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_STATIC) -o bin/kanzen ./cmd/kanzen

test: lint unit race e2e stale

lint:
	@test -z "$$(gofmt -l cmd internal pkg test bench examples)" || { gofmt -l cmd internal pkg test bench examples; echo "gofmt: the files above are not formatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@for m in test bench test/kubebuilder examples/operator-test; do (cd $$m && echo "lint of $$m" && $(GO) vet ./... && $(GO) tool -modfile=$(CURDIR)/go.mod staticcheck ./... && $(GO) mod tidy -diff) || exit 1; done
	$(GO) mod verify >/dev/null
	@$(GO) mod tidy -diff

unit:
	$(GO) test ./...

race:
	$(GO) test -race $(RACE)

e2e:
	cd test && $(GO) test -timeout 15m ./...

# What takes minutes to build: programs that nobody here wrote, behind the server.
e2e-slow:
	cd test && $(GO) test -timeout 30m -run 'TestMetricsServer' -metrics-server .

# Known holes in what is built in; needs the vulnerability database to be in reach.
vuln:
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

generate: bench/peer/bin/kube-apiserver
	$(GO) generate ./...

# The OpenAPI documents are recorded from the peer, which is built from the
# modules that bench/peer/go.mod names.
bench/peer/bin/kube-apiserver:
	$(MAKE) -C bench/peer bin/kube-apiserver bin/etcd

# Fails if what is generated differs from what is checked in.
stale: generate
	git diff --exit-code -- internal/openapi/data

bench: build
	cd bench && $(GO) run .

bench-go:
	$(GO) test -run '^$$' -bench . -benchmem ./internal/store/... ./internal/engine/... ./internal/authz/... ./internal/chain/...

.PHONY: build test lint unit race e2e e2e-slow vuln generate stale bench bench-go
