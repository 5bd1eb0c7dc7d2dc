// Package flowcontrol implements API priority and fairness: it shares the server among requests, so that one tenant's
// flood slows down only that tenant.
//
// A request takes seats while it is served: one, or more if it is expensive. A FlowSchema assigns the request to a flow
// and a priority level. Each level has its own seats, some of which it lends while it does not need them. Shuffle
// sharding distributes the flows of a level over its queues, so that few flows share all their queues with a flow that
// fills them. Fair queuing picks the next request.
//
//	Filter → classify → estimate → level.enter ─▶ queueSet   (which request is next)
//	Consumer ─ objects ─▶ Controller.Configure, Adjust ─▶ borrow (which level gets seats)
//
// The algorithms (queueSet, borrow, demand, retryAdvice) use no clocks, goroutines or locks: time is an input. The code
// around them adds one lock per level, and channels on which requests wait.
//
// Dangling and Upkeep maintain the stored objects as kube-apiserver does.
package flowcontrol
