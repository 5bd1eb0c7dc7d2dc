// Package planes has providers of sigs.k8s.io/multicluster-runtime for the control planes of one kanzen server (`kanzen serve --planes`):
// a controller that is written once reconciles objects in all of them.
//
// There are two, for two kinds of users.
//
// [Export] is for those who offer kinds to other planes. Each plane that binds the export is a cluster, by its name. All of them are
// served by one list and one watch of each kind, whatever their number: the clusters' caches are slices of one shared cache. No
// plane is woken by being watched. Writes go to the single plane, with the rights that its binding gives.
//
// [Fleet] is for those who run the server. Each Plane, or each that a label selector selects, is a cluster with a connection, caches
// and credentials of its own, those of its administrator. Watches keep planes awake, so this costs what awake planes cost.
//
// Both are started by the manager that they are given to. They go on when the server is restarted. When a cluster is disengaged,
// its context is cancelled, and Get does not find it any more; what was read from it before remains valid.
package planes
