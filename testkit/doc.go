// Package testkit gives a Go test a whole Kubernetes API server: real storage, admission, authorization, watches, namespace
// deletion and garbage collection. It is for modules of any version of client-go and controller-runtime, because it imports
// neither: the server is the kanzen binary, in a process of its own.
//
//	func TestController(t *testing.T) {
//		s := testkit.Start(t, testkit.Install(testkit.Path("config/crd/bases")))
//		cfg := testkit.Config[rest.Config](s)
//		...
//	}
//
// The first Start of a test binary starts the process. Each Start makes a control plane in it: its own objects, users, keys,
// definitions and controllers, so that tests may run in parallel, each with its own. The process ends with the test binary,
// however that ends.
//
// The binary is the one that $KANZEN names; else kanzen in the PATH; else the tool kanzen of the module under test, or of its
// tools module (go tool kanzen); else the one to which the files in $KUBEBUILDER_ASSETS link.
//
// Package github.com/kanzen-io/kanzen/pkg/kanzentest runs the server inside the test's process, with faults, a clock and the
// record of all requests, for modules that use the same version of client-go as kanzen.
package testkit
