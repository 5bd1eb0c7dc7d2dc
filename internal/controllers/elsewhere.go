package controllers

// absent is a controller that kube-controller-manager has and this server does not.
type absent struct {
	name, alias string
	why         reason
}

// reason says why a controller is not here.
type reason string

const (
	workloads  reason = "it makes, evicts or counts pods, which only nodes can run"
	nodes      reason = "it looks after nodes"
	volumes    reason = "it provisions, binds or attaches volumes for pods"
	cloud      reason = "it needs a cloud; cloud-controller-manager has it"
	serveNodes reason = "it lists the pods behind services"
)

// elsewhere are the controllers of kube-controller-manager 1.37 that are not here. --controllers accepts their names, so
// that a command line written for kube-controller-manager works, and the server says at its start that they do not run.
// docs/whole-cluster.md has the same list.
var elsewhere = []absent{
	{"cloud-node-lifecycle-controller", "cloud-node-lifecycle", cloud},
	{"cronjob-controller", "cronjob", workloads},
	{"daemonset-controller", "daemonset", workloads},
	{"deployment-controller", "deployment", workloads},
	{"device-taint-eviction-controller", "", workloads},
	{"disruption-controller", "disruption", workloads},
	{"endpoints-controller", "endpoint", serveNodes},
	{"endpointslice-controller", "endpointslice", serveNodes},
	{"endpointslice-mirroring-controller", "endpointslicemirroring", serveNodes},
	{"ephemeral-volume-controller", "ephemeral-volume", volumes},
	{"horizontal-pod-autoscaler-controller", "horizontalpodautoscaling", workloads},
	{"job-controller", "job", workloads},
	{"node-ipam-controller", "nodeipam", nodes},
	{"node-lifecycle-controller", "nodelifecycle", nodes},
	{"node-route-controller", "route", cloud},
	{"persistentvolume-attach-detach-controller", "attachdetach", volumes},
	{"persistentvolume-binder-controller", "persistentvolume-binder", volumes},
	{"persistentvolume-expander-controller", "persistentvolume-expander", volumes},
	{"pod-garbage-collector-controller", "podgc", workloads},
	{"replicaset-controller", "replicaset", workloads},
	{"replicationcontroller-controller", "replicationcontroller", workloads},
	{"resourceclaim-controller", "resource-claim-controller", workloads},
	{"selinux-warning-controller", "", volumes},
	{"service-lb-controller", "service", cloud},
	{"statefulset-controller", "statefulset", workloads},
	{"taint-eviction-controller", "", nodes},
	{"ttl-controller", "ttl", nodes},
}

// Absent returns those names in --controllers that ask for controllers that are not here, with the reasons.
func Absent(names []string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		n = full(n)
		for _, a := range elsewhere {
			if a.name == n {
				out[n] = string(a.why)
			}
		}
	}
	return out
}

func absentNames() []string {
	names := make([]string, len(elsewhere))
	for i, a := range elsewhere {
		names[i] = a.name
	}
	return names
}
