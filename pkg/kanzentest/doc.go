// Package kanzentest gives a Go test a whole Kubernetes API server in its own process, in milliseconds: real storage,
// admission, authorization, watches, namespace deletion, garbage collection and service accounts, and nothing to
// download.
//
//	func TestController(t *testing.T) {
//		s := kanzentest.Start(t, kanzentest.Install(kanzentest.Path("config/crd/bases")))
//		client := kubernetes.NewForConfigOrDie(s.Config())
//		...
//	}
//
// Start is for tests, New for TestMain and other programs. Servers are independent of each other: tests may run in
// parallel, each with its own. Tests that share one take a Namespace each, or Reset it in between.
//
// A server keeps everything in memory and opens no socket unless it is asked to (Listen). Its clients reach it by the
// transport of a rest.Config. Servers of one process have one certificate authority; all else, also the keys that sign
// the tokens of service accounts, is each server's own.
//
// Beside the API there is what a test needs of it: users with roles (Server.User), webhooks that an http.Handler in the
// test serves (Webhooks), a clock that the test moves (WithClock), the record of all requests (Server.Requests), and faults
// (Server.Inject, Server.StopEtcd).
package kanzentest
