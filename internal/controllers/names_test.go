package controllers

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// upstream are the controllers that kube-controller-manager 1.37 --help lists.
const upstream = `bootstrap-signer-controller certificatesigningrequest-approving-controller certificatesigningrequest-cleaner-controller
certificatesigningrequest-signing-controller cloud-node-lifecycle-controller clusterrole-aggregation-controller cronjob-controller
daemonset-controller deployment-controller device-taint-eviction-controller disruption-controller endpoints-controller endpointslice-controller
endpointslice-mirroring-controller ephemeral-volume-controller garbage-collector-controller horizontal-pod-autoscaler-controller job-controller
kube-apiserver-serving-clustertrustbundle-publisher-controller legacy-serviceaccount-token-cleaner-controller namespace-controller
node-ipam-controller node-lifecycle-controller node-route-controller persistentvolume-attach-detach-controller persistentvolume-binder-controller
persistentvolume-expander-controller persistentvolume-protection-controller persistentvolumeclaim-protection-controller
pod-garbage-collector-controller podcertificaterequest-cleaner-controller podgroup-protection-controller replicaset-controller
replicationcontroller-controller resourceclaim-controller resourcepoolstatusrequest-controller resourcequota-controller
root-ca-certificate-publisher-controller selinux-warning-controller service-cidr-controller service-lb-controller serviceaccount-controller
serviceaccount-token-controller statefulset-controller storage-version-migrator-controller storageversion-garbage-collector-controller
taint-eviction-controller token-cleaner-controller ttl-after-finished-controller ttl-controller validatingadmissionpolicy-status-controller
volumeattributesclass-protection-controller`

// Every controller of kube-controller-manager is here, or accepted with a reason that the documentation has.
func TestNamesAreComplete(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/whole-cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(doc), -1) {
		rows[m[1]] = m[2]
		documented = append(documented, m[1])
	}
	want := strings.Fields(upstream)
	have := Names()
	for _, a := range elsewhere {
		have = append(have, a.name)
		if rows[a.name] != "no: "+string(a.why) {
			t.Errorf("docs/whole-cluster.md says of %s %q, want %q", a.name, rows[a.name], "no: "+string(a.why))
		}
	}
	for _, name := range Names() {
		if rows[name] != "yes" {
			t.Errorf("docs/whole-cluster.md says of %s %q, want yes", name, rows[name])
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	slices.Sort(documented)
	if len(want) != 52 || !slices.Equal(have, want) {
		t.Errorf("kanzen knows %d controllers %q, kube-controller-manager %d %q", len(have), have, len(want), want)
	}
	if !slices.Equal(documented, want) {
		t.Errorf("docs/whole-cluster.md has %q", documented)
	}
}

func TestValidNames(t *testing.T) {
	t.Parallel()
	for _, good := range [][]string{nil, {"*"}, {""}, {"*", "-namespace"}, {"garbagecollector", "-bootstrapsigner"}, {"deployment", "-cloud-node-lifecycle"}, {"*", "statefulset-controller"}} {
		if err := ValidNames(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	err := ValidNames([]string{"*", "deploymnt"})
	if err == nil || !strings.Contains(err.Error(), `"deploymnt"`) || !strings.Contains(err.Error(), "namespace-controller") || !strings.Contains(err.Error(), "deployment-controller") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	got := Absent([]string{"*", "deployment", "-cronjob", "namespace", "ttl-controller"})
	if len(got) != 2 || got["deployment-controller"] != string(workloads) || got["ttl-controller"] != string(nodes) {
		t.Errorf("%v", got)
	}
}
