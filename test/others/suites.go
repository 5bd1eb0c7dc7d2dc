package main

// target is a suite: a module and those of its packages that start a server with envtest.
type target struct {
	name     string
	module   string // PATH@VERSION
	packages []string
	// nested are modules below it that it takes from its own folders: the folder, and PATH@VERSION. The module does not contain them.
	nested map[string]string
	tags   string // of its files
	// prepare is a shell script that is run in the copy of the module before its tests are compiled. It makes what the tests read and the module
	// does not contain.
	prepare string
	// crds is a folder of definitions for a suite that tests a server that is there, and wants them to be in it.
	crds string
	// leftOut are tests that are not asked for, by their names, or by expressions that match the texts of Ginkgo's specs; and why.
	leftOut map[string]string
	// known says why a test fails on both servers.
	known map[string]string
}

// targets are all suites, in the order of the page: the newest versions that the Go of this repository compiles and that have their tests in the
// module; of controller-runtime, that of test/go.mod.
var targets = []target{
	{
		name: "gateway-api-standard", module: "sigs.k8s.io/gateway-api@v1.4.1", packages: []string{"./pkg/test/cel"}, tags: "standard", crds: "config/crd/standard",
		leftOut: map[string]string{"pkg/test/crd": "downloads kube-apiserver, and runs on no other"},
	},
	{
		name: "gateway-api-experimental", module: "sigs.k8s.io/gateway-api@v1.4.1", packages: []string{"./pkg/test/cel"}, tags: "experimental", crds: "config/crd/experimental",
		leftOut: map[string]string{"pkg/test/crd": "downloads kube-apiserver, and runs on no other"},
		known: map[string]string{
			"sigs.k8s.io/gateway-api/pkg/test/cel TestHTTPRouteTimeouts/invalid_timeout_request_200ms_less_than_backendRequest_1s": `wants "Invalid value: \"object\"" in the message, as Kubernetes before 1.35 words it`,
		},
	},
	{name: "controller-runtime", module: "sigs.k8s.io/controller-runtime@v0.24.1", packages: []string{"./pkg/..."}},
	{name: "karpenter", module: "sigs.k8s.io/karpenter@v1.14.1", packages: []string{"./pkg/..."}},
	{
		name: "cluster-api", module: "sigs.k8s.io/cluster-api@v1.14.2", nested: map[string]string{"api": "sigs.k8s.io/cluster-api/api@v1.14.2"},
		packages: []string{"./bootstrap/...", "./controllers/...", "./controlplane/...", "./core/...", "./internal/...", "./util/..."},
	},
	{
		name: "gatekeeper", module: "github.com/open-policy-agent/gatekeeper/v3@v3.23.1", packages: []string{
			"./pkg/cachemanager/...", "./pkg/controller/config/...", "./pkg/controller/connectionstatus/...", "./pkg/controller/export/...",
			"./pkg/controller/mutators/...", "./pkg/readiness/...", "./pkg/watch/...",
		},
		leftOut: map[string]string{"pkg/controller/constrainttemplate": "waits for a policy of admissionregistration.k8s.io/v1beta1, which Kubernetes 1.37 does not serve by default"},
	},
	{
		name: "kueue", module: "sigs.k8s.io/kueue@v0.17.0", packages: []string{
			"./test/integration/singlecluster/conversion", "./test/integration/singlecluster/webhook/core", "./test/integration/singlecluster/controller/core",
			"./test/integration/singlecluster/controller/jobs/job", "./test/integration/singlecluster/scheduler", "./test/integration/multikueue",
		},
		// Definitions of its own, and those of other projects from their modules, as its Makefile makes them.
		prepare: `make KUSTOMIZE_VERSION=v5.8.1 kustomize dep-crds
			mkdir -p config/components/crd/_output
			bin/kustomize build config/components/crd > config/components/crd/_output/crds-with-webhooks.yaml`,
		leftOut: map[string]string{"thirty more packages of test/integration": "ask the server the same for kinds of other projects, or for single features, and take hours"},
	},
	{
		// Its later versions have these tests in a module of their own, which the module proxy does not have.
		name: "cert-manager", module: "github.com/cert-manager/cert-manager@v1.11.5", packages: []string{
			"./test/integration/acme", "./test/integration/certificaterequests", "./test/integration/certificates", "./test/integration/challenges",
			"./test/integration/conversion", "./test/integration/ctl/...", "./test/integration/issuers", "./test/integration/rfc2136_dns01",
			"./test/integration/validation", "./test/integration/webhook",
		},
		leftOut: map[string]string{"test/integration/versionchecker": "needs the manifests of all releases, from GitHub"},
		// Its definitions are templates of a chart, because of their labels.
		prepare: `mkdir -p _bin/yaml/templated-crds
			for crd in deploy/crds/crd-*.yaml; do
				sed '/{{/d' $crd > _bin/yaml/templated-crds/$(basename $crd .yaml).templated.yaml
			done`,
	},
	{
		// The newest version whose controllers are in its own module.
		name: "external-secrets", module: "github.com/external-secrets/external-secrets@v0.16.2", packages: []string{"./pkg/controllers/..."},
	},
}
