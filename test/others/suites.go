package main

// target is a suite: a module and those of its packages that start a server with envtest.
type target struct {
	name     string
	module   string // PATH@VERSION
	packages []string
	tags     string // of its files
	// crds is a folder of definitions for a suite that tests a server that is there, and wants them to be in it.
	crds string
	// with are folders that the module's own files expect and its archive has not, because they are modules of their own or are
	// made by its Makefile.
	with map[string]from
	// leftOut are tests that are not asked for, by their names, or by expressions that match the texts of Ginkgo's specs; and why.
	leftOut map[string]string
	// known says why a test fails on both servers.
	known map[string]string
}

// from is a folder of a module (PATH@VERSION).
type from struct{ module, folder string }

// targets are all suites, in the order of the page. The newest versions that the Go of this repository compiles, and that have their tests
// in the module.
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
	{name: "source-controller", module: "github.com/fluxcd/source-controller@v1.9.6", packages: []string{"./internal/..."},
		with: map[string]from{"api": {"github.com/fluxcd/source-controller/api@v1.9.6", "."}}},
	{name: "karpenter", module: "sigs.k8s.io/karpenter@v1.14.1", packages: []string{"./pkg/..."}},
	{
		name: "cluster-api", module: "sigs.k8s.io/cluster-api@v1.14.2", packages: []string{"./bootstrap/...", "./controllers/...", "./controlplane/...", "./core/...", "./internal/...", "./util/..."},
		with: map[string]from{"api": {"sigs.k8s.io/cluster-api/api@v1.14.2", "."}},
	},
	{name: "gatekeeper", module: "github.com/open-policy-agent/gatekeeper/v3@v3.23.1", packages: []string{"./pkg/..."}},
}
