// Package flowcontrol is API priority and fairness: it shares the server among
// requests, so that one tenant's flood is that tenant's loss.
//
// A request takes seats while it is served: one, or more if it is large. A
// FlowSchema says which flow it belongs to and of which priority level that is.
// Each level has seats of its own, some of which it lends while it does not
// need them, and queues, into which its flows are shuffled so that few share
// all queues with a flow that fills them. Fair queuing picks the next request.
//
//	Filter → classify → estimate → level.enter ─▶ queueSet   (who is next)
//	Consumer ─ objects ─▶ Controller.Configure, Adjust ─▶ borrow (whose seats)
//
// What decides (queueSet, borrow, demand, retryAdvice) is without clocks,
// goroutines and locks: time is an input. Around it are a lock a level, and
// channels for those who wait.
//
// Dangling and Upkeep keep the stored objects as kube-apiserver does.
package flowcontrol
