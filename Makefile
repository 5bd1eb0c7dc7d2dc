SHELL := /bin/bash
# Everything a developer types; .ci/run says what CI runs of it.
GO ?= go
GOFLAGS_STATIC := -ldflags '-s -w'
# One way to compile, so that the binary, tests, linters and programs under test share what was compiled once. Without -trimpath
# also the modules below share it, which name this one by its folder. A compiler that collects its garbage less often takes a
# fifth less of the processor, and does not compile otherwise.
export CGO_ENABLED ?= 0
export GOFLAGS ?= '-toolexec=env GOGC=400 GOMEMLIMIT=1GiB'
# Packages whose goroutines may meet are tested with the race detector, which makes tests six times as slow. Most plugins start none and
# share nothing; they are left out.
MEETING := ./internal/server ./internal/store/... ./internal/engine/... ./internal/access/... ./internal/chain/... ./internal/controllers/... \
	./internal/api/catalog/... ./internal/api/crd/... ./internal/object/fieldmanager/... ./internal/object/cel/... ./internal/process/keys/... \
	./internal/wire/remote/... ./internal/wire/egress/... ./internal/wire/frontproxy/... ./internal/observe/tracing/... ./internal/base/span/... \
	./internal/base/live/... ./internal/server/controlplane ./internal/server/planes/owners ./pkg/...
RACE = $(shell $(GO) list -f '{{.Dir}} {{.ImportPath}}' $(MEETING) | while read -r dir path; do \
	case $$path in (*/admission/plugin/*) grep -qE '^\s*go [a-z]|\bsync\.|\batomic\.|\.Go\b|\bchan ' $$dir/*.go || continue ;; esac; echo $$path; done)

# Systems whose code cross-vet checks; lint and the tests look at that of this one.
SYSTEMS ?= darwin windows
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# Modules beside this one.
MODULES := test bench test/helm test/operations test/kubebuilder test/conformance/coredns examples/operator-test testkit testcontainers multicluster site web release release/kubectl

# Suites of test/ that compare with thousands of recorded answers of kube-apiserver, break things for a minute, or first compile
# programs beside this module and test suites of others: they say more about kanzen than about a clone of it.
DEEP := ./authz/matrix ./chaos ./goldens ./hostile ./http2
DEEP_TESTS := ^(TestManifests|TestKMSFaults|TestControllerRuntimeSuites|TestKubebuilder|TestExampleModule|TestTestkit|TestMulticluster|TestExtensionThings|TestExtensionPodMetrics)$$
# Tests wait, end-to-end tests most of the time: more of them run than there are processors.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Nobody debugs them: without what debuggers read, their programs are linked in two thirds of the time.
TEST_FLAGS := -vet=off -ldflags '-s -w' -p $(shell expr $(PROCESSORS) + 2)
TEST := $(GO) test $(TEST_FLAGS)
PROGRAMS := KANZEN=$(CURDIR)/bin/kanzen KUBECTL=$(CURDIR)/bin/kanzen-kubectl
E2E_FLAGS := $(TEST_FLAGS) -count=1 -parallel $(shell expr $(PROCESSORS) '*' 3) -timeout 25m
E2E := $(PROGRAMS) $(GO) test $(E2E_FLAGS)
# Runs packages (first, words of the shell) with flags of go test (second). They share the machine with each other, and with browsers, etcd and
# kube-apiserver. If a few fail, each may show alone, once, that it was that, unless it was a data race; bin/again-*.txt, which is printed, says which did.
define again
rm -f $(CURDIR)/bin/again-$@.txt; $(CURDIR)/bin/gotestsum --format standard-quiet --hide-summary=skipped --rerun-fails=1 --rerun-fails-max-failures=6 \
	--rerun-fails-abort-on-data-race --rerun-fails-run-root-test --rerun-fails-report=$(CURDIR)/bin/again-$@.txt --packages="$(1)" -- $(2); \
	code=$$?; cat $(CURDIR)/bin/again-$@.txt 2>/dev/null; exit $$code
endef

# The Go tool is silent while it compiles; -v names each package, which the awk counts on one line.
PROGRESS = 2>&1 | awk '/^[a-zA-Z0-9_.\/-]+$$/ { n++; if (n % 25 == 0) { printf "  compiled %d packages\r", n; fflush() } next } { print; fflush() } END { if (n) printf "  compiled %d packages\n", n }'

build:
	@echo "building bin/kanzen (minutes the first time, seconds after that)"
	@set -o pipefail; $(GO) build -v $(GOFLAGS_STATIC) -o bin/kanzen ./cmd/kanzen $(PROGRESS)
	@$(GO) build $(GOFLAGS_STATIC) -o bin/kanzen-kms ./cmd/kanzen-kms
	@$(MAKE) --no-print-directory kubectl

# What 'kanzen kubectl' runs: kubectl of the same version, a module of its own. Most of what it needs was compiled for kanzen.
kubectl:
	@echo "building bin/kanzen-kubectl"
	@GO='$(GO)' release/kubectl/build.sh bin/kanzen-kubectl

# The first command of the README: builds, saying how far it is, and serves.
serve: build
	@exec bin/kanzen serve

# What needs no more than Go and this repository. Linters are apart: they read the libraries of all modules the first time.
test:
	@echo "1/3 build: bin/kanzen"
	@$(MAKE) --no-print-directory build
	@echo "2/3 unit tests of some 150 packages: each is compiled first, and a line says that it has passed (minutes the first time)"
	@$(MAKE) --no-print-directory unit
	@echo "3/3 e2e: bin/kanzen with real clients (kubectl, client-go, controller-runtime), which are compiled first"
	@$(MAKE) --no-print-directory e2e
	@echo "all passed; there are also, for minutes each: make test-deep, make lint (format, vet, staticcheck), make race (needs a C compiler), make test-peer (builds kube-apiserver), make e2e-builds (builds older kubectls and extension servers of others)"

# What make test leaves out of test/.
# The one half waits while the other computes.
test-deep: build
	@$(MAKE) --no-print-directory --output-sync=target -j2 deep-suites deep-tests

deep-suites:
	cd test && $(E2E) $(DEEP)

deep-tests:
	cd test && $(E2E) -run '$(DEEP_TESTS)' .
	cd test/operations && KANZEN=$(CURDIR)/bin/kanzen $(TEST) -count=1 ./...

# What needs kube-apiserver, which is built first: whether what is generated from it is stale, and whether one can take over the
# etcd of the other.
test-peer: build $(if $(shell command -v cc),bench/peer/bin/kine)
	@echo "building kube-apiserver and etcd of Kubernetes 1.37 (minutes the first time), then comparing what was generated from them"
	@$(MAKE) --no-print-directory stale
	@echo "tests of both on one etcd, and of data that kine keeps (three minutes)"
	$(GO) test -vet=off -count=1 ./internal/backup/kine
	cd test && KANZEN=$(CURDIR)/bin/kanzen $(GO) test -vet=off -timeout 30m -run 'TestTakeover|TestMigrateFromKine|TestCorruptObjects|TestEncryptionBesidePeer|TestSameIsEncrypted|TestKMSPlugins|TestKMSv1|TestEtcdFaults|TestEtcdServersOverrides' .

# kube-apiserver of the version before, which test-older has beside kanzen and kube-apiserver of this one.
OLDER := v1.36.3
bench/peer/bin/$(OLDER)/kube-apiserver:
	cd test && $(GO) run ./facts/upstream -build -version $(OLDER) -cache $(CURDIR)/bench/peer/bin

# What is stored goes from that to kanzen, back under --emulated-version, and on to kube-apiserver of this version.
test-older: build bench/peer/bin/kube-apiserver bench/peer/bin/$(OLDER)/kube-apiserver
	cd test && KANZEN=$(CURDIR)/bin/kanzen $(GO) test -vet=off -count=1 -timeout 30m -run 'TestTakeoverOfOlder' . ./peers

RECORD_TESTS := KANZEN=$(CURDIR)/bin/kanzen $(GO) test -vet=off -timeout 30m
# What tests hold kanzen against where asking kube-apiserver anew would cost it a start each time: asked again, and written down.
record: build bench/peer/bin/kube-apiserver bench/peer/bin/kube-controller-manager
	cd test && $(RECORD_TESTS) . -record -run 'TestManifestRefusals|TestForwardCompatible|TestEmulatedVersions|TestOpenAPIOfServed'
	cd test && $(RECORD_TESTS) ./peers ./cbor ./controllers ./metrics -record -run 'TestAcross|TestVersions|TestStandIn|TestAddress|TestStorageVersionsFirst|TestSockets|TestPodGroupProtection|TestPoolStatus|TestStorageVersions|TestNativeHistograms'
	cd test && $(RECORD_TESTS) ./authz ./authz/matrix -record -run 'TestAgainstPeer|TestPathsAgainstPeer'

# Compiles for every platform.
cross:
	@set -e; for p in $(PLATFORMS); do echo "compiling for $$p"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/kanzen; \
		GOOS=$${p%/*} GOARCH=$${p#*/} GO='$(GO)' release/kubectl/build.sh /dev/null; done

# Type-checks the code of other systems, without compiling it.
cross-vet:
	$(TEST) -count=1 -run TestSystems ./internal/lint -systems '$(SYSTEMS)'

# dist/: binaries, packages, an image, checksums, a bill of materials, a chart, what package managers and CI read (docs/install.md).
# DOWNLOADS is the URL below which releases are published, IMAGE the image's name, SIGNING_KEY the file of the key that signs the
# repositories of packages, EARLIER a directory with packages that they keep. The same commit and settings give the same bytes.
release:
	DOWNLOADS='$(DOWNLOADS)' IMAGE='$(IMAGE)' SIGNING_KEY='$(SIGNING_KEY)' EARLIER='$(EARLIER)' release/build.sh $(PLATFORMS)

# bin/site: the documentation as static pages, with search. SOURCE is the URL of the repository's files, for links to what is no page.
site:
	cd site && $(GO) run . -out ../bin/site -version "$$(sed -n 's/^var Kanzen = "\(.*\)"/\1/p' ../internal/base/version/version.go)" -source '$(SOURCE)'

# The binary alone in an empty root: serve, a CRD and its objects, stop, start.
fresh: build
	release/fresh.sh bin/kanzen

lint: vet staticcheck

vet:
	@test -z "$$(gofmt -l cmd internal pkg test testkit testcontainers multicluster bench examples release site web)" || { gofmt -l cmd internal pkg test testkit testcontainers multicluster bench examples release site web; echo "gofmt: the files above are not formatted"; exit 1; }
	$(GO) vet ./...
	@for m in $(MODULES); do (cd $$m && echo "vet of $$m" && $(GO) vet ./... && $(GO) mod tidy -diff) || exit 1; done
	$(GO) mod verify >/dev/null
	@$(GO) mod tidy -diff

staticcheck:
	$(GO) tool staticcheck ./...
	@for m in $(MODULES); do (cd $$m && echo "staticcheck of $$m" && $(GO) tool -modfile=$(CURDIR)/go.mod staticcheck ./...) || exit 1; done

bin/gotestsum: test/go.mod
	cd test && $(GO) build $(GOFLAGS_STATIC) -o ../bin/gotestsum gotest.tools/gotestsum

# Tests are vetted by lint.
unit:
	$(TEST) ./...
	cd site && $(TEST) ./...
	cd web && $(TEST) -count=1 ./...
	cd release && $(TEST) ./...
	cd release/kubectl && $(TEST) ./...

# -short leaves out what has one goroutine, and what measures memory. On a machine that has other things to do, the tests of internal/server
# take more than the ten minutes that tests have. The detector would sleep for a second at the end of each package.
race: export GORACE := atexit_sleep_ms=0
race: build bin/gotestsum
	@export CGO_ENABLED=1; $(call again,$(RACE),$(TEST_FLAGS) -p $(shell expr $(PROCESSORS) + 1) -race -short -timeout 20m)
	cd testkit && CGO_ENABLED=1 KANZEN=$(CURDIR)/bin/kanzen $(TEST) -p $(PROCESSORS) -race -short ./...

# What race leaves out of unit: other packages, and the tests that -short leaves out or makes shorter. Both together run each package
# once: a test that passes under the race detector is not run again without it.
SHORTER = $(shell $(GO) list -f '{{range .TestGoFiles}}{{$$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$.Dir}}/{{.}} {{end}}' $(RACE) | xargs grep -l 'testing\.Short()')
SHORTENED = $(shell awk '/^func / { match($$2, /^[A-Za-z0-9_]+/); name = substr($$2, 1, RLENGTH) } /testing\.Short\(\)/ { print name }' $(SHORTER) | sort -u | paste -sd '|')
unraced: bin/gotestsum
	@$(call again,$$($(GO) list ./... | grep -vxF -f <(printf '%s\n' $(RACE)) | paste -sd ' '),$(TEST_FLAGS))
	cd site && $(TEST) ./...
	cd web && $(TEST) -count=1 ./...
	cd release && $(TEST) ./...
	cd release/kubectl && $(TEST) ./...
	@$(call again,$(sort $(dir $(SHORTER))),$(TEST_FLAGS) -run '^($(SHORTENED))$$')

# All packages of tests run the one binary that was built. The Go tool does not see when that changes: it keeps no results (-count=1).
e2e: build bin/gotestsum
	cd testkit && $(E2E) ./...
	cd testcontainers && $(TEST) ./...
	@export $(PROGRAMS); cd test; $(call again,$$($(GO) list ./... | grep -v $(DEEP:.%=-e %$$) | paste -sd ' '),$(E2E_FLAGS) -skip '$(DEEP_TESTS)')

# What a release's image does in the container engine that docker or podman reaches, and the packages for testcontainers. It needs one of them,
# skopeo, and npm.
TEST_IMAGE := kanzen:test
# Tests remove their containers, so that there is no need for the one that testcontainers would pull for that.
CONTAINER_TESTS := KANZEN_IMAGE=$(TEST_IMAGE) TESTCONTAINERS_RYUK_DISABLED=true
test-containers: build
	rm -rf bin/image && cd release && $(GO) run ./image -o ../bin/image -version test linux/$$($(GO) env GOARCH)=../bin/kanzen,../bin/kanzen-kubectl
	skopeo copy oci:bin/image $(if $(shell command -v docker),docker-daemon:$(TEST_IMAGE),containers-storage:docker.io/library/$(TEST_IMAGE))
	cd test && $(CONTAINER_TESTS) $(E2E) -v -run '^TestContainer' .
	cd testcontainers && $(CONTAINER_TESTS) $(TEST) -count=1 -v ./...
	cd testcontainers/javascript && npm install --no-audit --no-fund --no-package-lock && $(CONTAINER_TESTS) npm test

# An operator's tests with testkit and with envtest on each controller-runtime from 0.19 on, which are downloaded and compiled first
# (half an hour); PEER=1 adds envtest on kube-apiserver.
testkit-matrix: build
	cd test && KANZEN=$(CURDIR)/bin/kanzen $(GO) test -vet=off -timeout 120m -v -run TestTestkitMatrix -matrix $(if $(PEER),-peer ../bench/peer/bin) .

# What takes minutes to build and is nobody's library here: older kubectls, extension API servers.
e2e-builds: build
	cd test && KANZEN=$(CURDIR)/bin/kanzen $(GO) test -vet=off -timeout 30m -builds -run 'TestKubectlVersions|TestSampleAPIServer|TestCustomMetrics' .

# What takes minutes to build: programs that nobody here wrote, behind the server.
e2e-slow: bench/peer/bin/kube-controller-manager bench/peer/bin/kube-scheduler
	cd test && $(GO) test -timeout 60m -run 'TestMetricsServer|TestWholeCluster|TestGarbageCollectionAsUpstream' -metrics-server -machines .

# Deployments that roll, scale and lose pods on 300 nodes of kwok, on kanzen and on kube-apiserver; all that comes and goes while kanzen
# is restarted; a server that is killed 400 times under load.
e2e-churn: bench/peer/bin/kube-controller-manager bench/peer/bin/kube-scheduler
	cd test && $(GO) test -timeout 120m -v -run 'TestChurn|TestKilledUnderLoad' -churn=20m -churn.restarts=10m -crashes=200 -crashes.busy=2 .

# A whole cluster that is used for DURATION while its parts break; then everything is compared with everything (docs/soak.md). SEED repeats what breaks.
# Then comes what needs no hours, unless WEEK is empty: a week of planes, by a clock that is moved on.
DURATION ?= 1h
WEEK ?= 1
soak: build bench/peer/bin/kube-controller-manager bench/peer/bin/kube-scheduler
	@echo "building kwok, an operator and the run"
	cd test/kwok && $(GO) build -ldflags '-s -w' -o ../../bin/soak/kwok sigs.k8s.io/kwok/cmd/kwok
	cd test/kubebuilder && $(GO) build -ldflags '-s -w' -o ../../bin/soak/operator ./cmd
	cd test && $(GO) test -vet=off -c -o ../bin/soak/soak.test ./chaos
	cd test/chaos && KANZEN=$(CURDIR)/bin/kanzen ./alone.sh ../../bin/soak/soak.test -test.v -test.timeout 0 -test.run '^TestSoak$$' -soak $(DURATION) -soak.seed $(or $(SEED),0) \
		-soak.out $(CURDIR)/bin/soak/results -soak.evidence $(CURDIR)/docs/evidence/soak.json; \
		status=$$?; cd ../.. && $(MAKE) --no-print-directory evidence || status=1; \
		$(if $(WEEK),$(GO) test -vet=off -count=1 -timeout 1h -v -run '^TestLife$$' ./internal/server/planes -week -seed $(or $(SEED),0) || status=1;) exit $$status

# controller-runtime's own test suites, package by package, on kanzen and on kube-apiserver.
e2e-controller-runtime:
	test/controller-runtime.sh

# Kubernetes' own integration tests (docs/upstream-integration.md) on kanzen, and with PEER=1 on kube-apiserver at the same time.
# PACKAGES are folders of its test/integration; PACKAGE:TESTS runs those that a regular expression matches.
# RUN is such an expression for all of them.
PACKAGES ?= apiserver apiserver/admissionwebhook apiserver/anonymous apiserver/apidefinitions apiserver/apply apiserver/cel apiserver/certreload \
	apiserver/coordinatedleaderelection apiserver/discovery apiserver/egressselector apiserver/flowcontrol apiserver/oidc \
	apiserver/openapi apiserver/podlogs apiserver/portforward apiserver/tracing apimachinery auth certificates client cloudprovider \
	clustertrustbundles controlplane controlplane/audit controlplane/transformation cronjob daemonset deployment \
	disruption dra dra/all dra/api dra/default dra/ga dryrun dualstack endpoints endpointslice etcd events evictions examples garbagecollector \
	job kubelet metrics namespace network node podautoscaler podcertificaterequests podgc pods pvc quota replicaset replicationcontroller \
	scale scheduler scheduler/batch scheduler/bind scheduler/eventhandler scheduler/extender scheduler/filters scheduler/nominated_node_name \
	scheduler/plugins scheduler/podgroup scheduler/podgroup/queueing scheduler/podgroup/topology_aware_scheduling scheduler/preemption scheduler/preemption/misc \
	scheduler/preemption/nominatednodename scheduler/preemption/podgroup scheduler/prequeueinghint scheduler/queueing scheduler/scoring scheduler/serving secrets service serviceaccount \
	servicecidr serving staleness statefulset storageclasses storageversion storageversionmigrator tls ttlcontroller volume volumescheduling
upstream-integration: build bench/peer/bin/etcd $(if $(PEER),bench/peer/bin/kube-apiserver)
	cd test && $(GO) run ./upstream $(if $(PEER),-peer ../bench/peer/bin/kube-apiserver) $(foreach p,$(addsuffix $(if $(RUN),:$(RUN)),$(PACKAGES)),'$(p)')

# Test suites of other projects (docs/others.md), those of test/others/suites.go or SUITES of them, on kanzen and on kube-apiserver. docs/evidence
# keeps what they say, unless PACKAGE, a regular expression, selects some of their packages.
others: build bench/peer/bin/kube-apiserver
	cd test && $(GO) run ./others $(if $(PACKAGE),-packages '$(PACKAGE)') $(SUITES)
	@$(MAKE) --no-print-directory evidence

# Whole operators of other projects (docs/operators.md), those of test/operators or OPERATORS of them, installed and used on kanzen, or with PEER=1
# on kube-apiserver. It needs Linux and root. HOLD=1 keeps the one operator that is named, and its server, after the last step.
operators: build
	cd test && $(GO) build -o ../bin/operators/operators ./operators
	cd test && ../bin/operators/operators $(if $(PEER),-peer) $(if $(HOLD),-hold) $(OPERATORS); \
		status=$$?; cd .. && $(MAKE) --no-print-directory evidence || status=1; exit $$status

# docs/evidence.md and docs/evidence.json, from what runs have left in docs/evidence.
evidence:
	cd test && $(GO) run ./evidence/write

# Kubernetes' own end-to-end specs, those that need no kubelet, on kube-apiserver, on kanzen with all additions and with none, and on a fork: twenty
# minutes, and as long the first time for building them. bin/specs has what they say.
specs: build bench/peer/bin/kube-apiserver bench/peer/bin/kube-controller-manager bench/peer/bin/e2e.test bench/peer/bin/ginkgo
	cd test && KANZEN=$(CURDIR)/bin/kanzen $(GO) test -vet=off -count=1 -timeout 150m -v -run '^TestSpecs$$' -specs -specs.out ../bin/specs $(if $(FOCUS),,-specs.evidence ../docs/evidence/specs.json) $(if $(FOCUS),-specs.focus '$(FOCUS)') .

# Kubernetes' conformance on real nodes in namespaces of this machine (docs/conformance.md), on kanzen, or with PEER=1 on kube-apiserver. It needs
# Linux and root. FOCUS is a regular expression of specs, NODES how many nodes there are, HOLD=1 keeps the cluster and runs none.
conformance: build
	cd test && $(GO) build -o ../bin/conformance/conformance ./conformance
	cd test && ../bin/conformance/conformance $(if $(PEER),-peer) $(if $(FOCUS),-focus '$(FOCUS)') $(if $(NODES),-nodes $(NODES)) $(if $(HOLD),-hold); \
		status=$$?; $(if $(FOCUS)$(HOLD),,cd .. && $(MAKE) --no-print-directory evidence || status=1;) exit $$status

# What people do with kubeadm, on a cluster of nodes in namespaces of this machine (docs/kubeadm.md) with kanzen in kube-apiserver's static pod, or
# with PEER=1 with kube-apiserver throughout. It needs Linux and root. HOLD=1 keeps the cluster after the last step.
kubeadm: build
	cd test && $(GO) build -o ../bin/kubeadm/kubeadm ./kubeadm
	cd test && ../bin/kubeadm/kubeadm $(if $(PEER),-peer) $(if $(HOLD),-hold); \
		status=$$?; cd .. && $(MAKE) --no-print-directory evidence || status=1; exit $$status

# kubectl's own test suite, make test-cmd of Kubernetes (docs/test-cmd.md), on kanzen, or with PEER=1 on kube-apiserver. It needs Linux and root. WHAT
# are names of groups to run.
test-cmd: build
	cd test && $(GO) build -o ../bin/test-cmd/test-cmd ./cmd
	cd test && ../bin/test-cmd/test-cmd $(if $(PEER),-peer) $(WHAT); \
		status=$$?; $(if $(WHAT),,cd .. && $(MAKE) --no-print-directory evidence || status=1;) exit $$status

# What has to be decided to take up another version of Kubernetes (docs/upstream.md): make upstream VERSION=v1.38.0. With RECORD=1 its
# facts become what TestFacts asks of kanzen.
upstream: build $(if $(VERSION),,bench/peer/bin/kube-apiserver)
	cd test && $(GO) run ./facts/upstream $(if $(VERSION),-version $(VERSION)) $(if $(RECORD),-record)

# The console's page, from its sources in web/console; the tests of web/ fail while the page that is checked in is another one. -fetch gets the
# packages that web/packages/packages.json pins.
web:
	cd web && $(GO) run .

# The types of the page's sources. It needs npm, which gets the compiler; nothing else does.
web-check:
	cd web && npm exec --yes --package typescript@7.0.2 -- tsc -p .

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
	git diff --exit-code -- internal/api/openapi/data internal/object/features internal/access/authz/bootstrap/policy.jsonl internal/observe/console/page web/console/answers.gen.ts

bench/peer/bin/etcd bench/peer/bin/kine bench/peer/bin/kube-controller-manager bench/peer/bin/kube-scheduler bench/peer/bin/e2e.test bench/peer/bin/ginkgo:
	$(MAKE) -C bench/peer bin/$(@F)

bench: build
	cd bench && $(GO) run .

bench-go:
	$(GO) test -run '^$$' -bench . -benchmem ./internal/store/... ./internal/engine/... ./internal/access/authz/... ./internal/chain/... ./internal/process/encryption/...

.PHONY: build kubectl serve test test-deep deep-suites deep-tests test-peer test-older record cross cross-vet release test-containers site fresh lint vet staticcheck unit race unraced e2e e2e-builds e2e-slow e2e-churn soak e2e-controller-runtime testkit-matrix upstream-integration others operators evidence specs conformance kubeadm test-cmd upstream vuln generate stale web web-check bench bench-go
