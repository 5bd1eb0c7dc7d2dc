package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/peer"
	"github.com/kanzen-io/kanzen/test/suite"
)

var (
	withSpecs   = flag.Bool("specs", false, "run those of Kubernetes' end-to-end specs that need no kubelet on kube-apiserver and on kanzen; make specs builds the programs")
	specsFocus  = flag.String("specs.focus", "", "a regular expression of the specs to run; default: all that need no kubelet")
	specsKept   = flag.String("specs.evidence", "", "file of evidence to write (default: none)")
	specsServer = flag.String("specs.server", "", "the one server to run them on; default: all")
	specsOut    = flag.String("specs.out", "", "folder for the output of the specs and of the servers (default: none is kept)")
)

// The specs that need no kubelet are those of these groups without those that wait for pods to run.
const (
	specsOfAPI = `\[sig-(api-machinery|auth|instrumentation)\]|API operations|should support .*API|should be able to .*(CSINode|StorageClass)|should run the lifecycle of (PodTemplates|a Deployment)|` +
		`should delete a collection|should manage the lifecycle of|EndpointSlice should|should find a service from listing|should provide secure master service|Service.* status`
	specsOfNodes = `\[Slow\]|\[Disruptive\]|\[Flaky\]|\[Feature:|\[Alpha\]|\[NodeConformance\]|\[Provider:|\[LinuxOnly\]|AdmissionWebhook|CustomResourceConversionWebhook|Aggregator|Aggregated APIServer|CBOR|` +
		`mount|[Pp]rojected|all pods are removed|delete pod first|NodeAuthenticator|MetricsGrabber|from kubelet|CTB|prevent a pod|by-node|OIDC discovery|lifecycle of a (Deployment|job|ControllerRevision)|` +
		`collection of pods|FieldSelectors MUST|EndpointSlices for Pods|in multiple EndpointSlices|create pods, set`
)

// controllersOfPods are those of kube-controller-manager that the specs need and kanzen has not.
const controllersOfPods = "--controllers=deployment-controller,replicaset-controller,replicationcontroller-controller,statefulset-controller,daemonset-controller,job-controller," +
	"cronjob-controller,endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller,disruption-controller,persistentvolume-binder-controller,resourceclaim-controller"

// TestSpecs runs the end-to-end specs of Kubernetes on kanzen with all of its additions, with none, and on a fork: each that passes on
// kube-apiserver passes there too.
func TestSpecs(t *testing.T) {
	if !*withSpecs {
		t.Skip("needs -specs, and minutes")
	}
	outcomes, seconds := map[string]map[string]string{}, map[string]int{}
	for _, server := range []struct {
		name  string
		begin func(t *testing.T, dir string) (kubeconfig string, controllers []string)
	}{
		{"kube-apiserver", specsOnPeer},
		{"kanzen", specsOnKanzen("*")},
		{"kanzen without additions", specsOnKanzen("")},
		{forkOfKanzen, specsOnFork},
	} {
		if *specsServer != "" && *specsServer != server.name {
			continue
		}
		t.Run(server.name, func(t *testing.T) {
			kubeconfig, controllers := server.begin(t, t.TempDir())
			addNode(t, kubeconfig)
			start(t, peerProgram(t, "kube-controller-manager"), append(controllers, "--kubeconfig="+kubeconfig,
				"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+peer.FreePort(t))...)
			began := time.Now()
			outcomes[server.name] = runSpecs(t, server.name, kubeconfig)
			seconds[server.name] = int(time.Since(began).Seconds())
		})
	}
	if *specsKept != "" {
		keepSpecs(t, outcomes, seconds)
	}
	compareSpecs(t, outcomes)
}

func specsOnKanzen(extensions string) func(*testing.T, string) (string, []string) {
	return func(t *testing.T, dir string) (string, []string) {
		k := serve(t, filepath.Join(dir, "data"), "--extensions="+extensions)
		return k.kubeconfig(), []string{controllersOfPods, "--use-service-account-credentials=true", "--service-account-private-key-file=" + filepath.Join(k.dir, "pki", "sa.key")}
	}
}

const forkOfKanzen = "a fork of kanzen"

// notInForks are the specs that a fork does not pass, by design (docs/forks.md).
var notInForks = []string{
	"should create a serviceAccountToken",         // it signs no tokens
	"should support building a client with a CSR", // nor certificates
	"requests can be classified by adding",        // its requests are queued by the flow schemas of the server
	"health handlers should contain",              // so that it has no checks of its own of flow control
	"SelfSubjectReview should support",            // another user has no right to the path of the fork
}

// specsOnFork has them run in a copy of a server, which signs no tokens: the controllers have the administrator's credentials.
func specsOnFork(t *testing.T, dir string) (string, []string) {
	k := serve(t, filepath.Join(dir, "data"))
	must(t, os.Mkdir(filepath.Join(dir, "fork"), 0o700))
	if stdout, stderr, code := output(t, binaries.kanzen, "fork", "create", "specs", "--ttl=4h", "--data-dir", k.dir); code != 0 {
		t.Fatal(stdout, stderr)
	}
	text, stderr, code := output(t, binaries.kanzen, "fork", "kubeconfig", "specs", "--data-dir", k.dir)
	if code != 0 {
		t.Fatal(stderr)
	}
	kubeconfig := filepath.Join(dir, "fork", "kubeconfig")
	must(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	return kubeconfig, []string{controllersOfPods, "--service-account-private-key-file=" + filepath.Join(k.dir, "pki", "sa.key")}
}

func specsOnPeer(t *testing.T, dir string) (string, []string) {
	certs, ca, key := filepath.Join(dir, "certs"), filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	writeAuthority(t, ca, key)
	c := peer.Start(t, "--cert-dir", certs, "--client-ca-file", ca, "--service-account-key-file", key, "--service-account-signing-key-file", key)
	m := &machines{t: t, kubeconfig: filepath.Join(dir, "kubeconfig")}
	m.writeKubeconfig(c)
	return m.kubeconfig, []string{"--use-service-account-credentials=true", "--controllers=*,-node-lifecycle-controller", "--service-account-private-key-file=" + key, "--root-ca-file=" + filepath.Join(certs, "apiserver.crt"),
		"--cluster-signing-cert-file=" + ca, "--cluster-signing-key-file=" + key}
}

// addNode adds a node that is ready, for specs that ask how many pods fit. Nothing runs there, and nobody looks after it.
func addNode(t *testing.T, kubeconfig string) {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	nodes := kubernetes.NewForConfigOrDie(c).CoreV1().Nodes()
	n, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "specs"}}, metav1.CreateOptions{})
	must(t, err)
	n.Spec.Taints = nil // it was created as not ready
	n, err = nodes.Update(t.Context(), n, metav1.UpdateOptions{})
	must(t, err)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	n.Status.Allocatable = n.Status.Capacity
	_, err = nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	must(t, err)
}

// writeAuthority makes a certificate authority, whose key also signs tokens.
func writeAuthority(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	must(t, err)
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	der, err = x509.MarshalECPrivateKey(private)
	must(t, err)
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
}

// runSpecs runs the specs on a server, several at a time, and returns how each ended.
func runSpecs(t *testing.T, name, kubeconfig string) map[string]string {
	t.Helper()
	out := *specsOut
	if out == "" {
		out = t.TempDir()
	}
	out, err := filepath.Abs(filepath.Join(out, strings.ReplaceAll(name, " ", "-")))
	must(t, err)
	must(t, os.MkdirAll(out, 0o755))
	focus := *specsFocus
	if focus == "" {
		focus = specsOfAPI
	}
	log, err := os.Create(filepath.Join(out, "specs.log"))
	must(t, err)
	defer log.Close()
	cmd := exec.CommandContext(t.Context(), peerProgram(t, "ginkgo"), "-procs=8", "--no-color", "-v", "--focus="+focus, "--skip="+specsOfNodes, "--timeout=40m",
		"--json-report=report.json", "--output-dir="+out, peerProgram(t, "e2e.test"), "--",
		"--kubeconfig="+kubeconfig, "--provider=skeleton", "--kubectl-path="+binaries.kubectl, "--report-dir="+out)
	cmd.Dir, cmd.Stdout, cmd.Stderr = out, log, log
	failed := cmd.Run() // some fail on every server
	report, err := os.ReadFile(filepath.Join(out, "report.json"))
	if err != nil {
		t.Fatalf("%v: %v", failed, err)
	}
	return specOutcomes(t, report)
}

// specOutcomes reads a report of ginkgo. Specs that were left out are not in it.
func specOutcomes(t *testing.T, report []byte) map[string]string {
	t.Helper()
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
			NumAttempts                       int
		}
	}
	must(t, json.Unmarshal(report, &suites))
	outcomes := map[string]string{}
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			if s.LeafNodeType == "It" && s.NumAttempts > 0 {
				outcomes[strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")] = s.State
			}
		}
	}
	if len(outcomes) == 0 {
		t.Fatal("no spec was run")
	}
	return outcomes
}

// keepSpecs writes the file of evidence: a suite for kanzen with all additions and one for kanzen with none.
func keepSpecs(t *testing.T, outcomes map[string]map[string]string, seconds map[string]int) {
	t.Helper()
	peerVersion, err := suite.Version(peerProgram(t, "kube-apiserver"))
	must(t, err)
	version, err := suite.Version(link(t, "kube-apiserver"))
	must(t, err)
	kept := evidence.Run{Title: "Kubernetes' end-to-end specs", Command: "make specs",
		Text: "runs the end-to-end specs of Kubernetes that need no kubelet ([benchmarks/extensions.md](benchmarks/extensions.md)), on kube-apiserver, on kanzen with all\nadditions to the API, on kanzen with none, and on a fork of kanzen."}
	for _, name := range []string{"kanzen", "kanzen without additions", forkOfKanzen} {
		s, err := evidence.Now()
		must(t, err)
		s.Name, s.Module, s.Packages, s.Of = "test/e2e on "+name, "k8s.io/kubernetes v"+peerVersion, []string{"test/e2e"}, 1
		s.Servers[evidence.Kanzen] = countSpecs(version, seconds[name], outcomes[name])
		s.Servers[evidence.Peer] = countSpecs(peerVersion, seconds[evidence.Peer], outcomes[evidence.Peer])
		for _, spec := range slices.Sorted(maps.Keys(outcomes[evidence.Peer])) {
			if ours, theirs := outcomes[name][spec], outcomes[evidence.Peer][spec]; ours != theirs {
				s.Differences = append(s.Differences, evidence.Difference{Test: spec, Kanzen: ours, Peer: theirs})
			}
		}
		kept.Suites = append(kept.Suites, s)
	}
	must(t, kept.Write(*specsKept))
}

func countSpecs(version string, seconds int, outcomes map[string]string) evidence.Server {
	of := evidence.Server{Version: version, Seconds: seconds}
	for _, spec := range slices.Sorted(maps.Keys(outcomes)) {
		switch outcomes[spec] {
		case "passed":
			of.Passed++
		case "skipped", "pending":
			of.Skipped++
		default:
			of.Failed++
			of.Failing = append(of.Failing, spec)
		}
	}
	return of
}

// compareSpecs prints how many specs ended how, and has the test fail for those that pass on kube-apiserver and not on kanzen.
func compareSpecs(t *testing.T, outcomes map[string]map[string]string) {
	t.Helper()
	theirs := outcomes["kube-apiserver"]
	for _, server := range slices.Sorted(maps.Keys(outcomes)) {
		counts := map[string]int{}
		for _, outcome := range outcomes[server] {
			counts[outcome]++
		}
		fmt.Printf("%s: %v\n", server, counts)
		for _, spec := range slices.Sorted(maps.Keys(theirs)) {
			byDesign := server == forkOfKanzen && slices.ContainsFunc(notInForks, func(s string) bool { return strings.Contains(spec, s) })
			if ours := outcomes[server][spec]; theirs[spec] == "passed" && ours != "passed" && !byDesign {
				t.Errorf("%s: %s: %s", server, spec, ours)
			}
		}
	}
}
