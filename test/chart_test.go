package test

import (
	"bytes"
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestChart renders the chart of a release with Helm's library (module helm), has a server check the objects, and starts kanzen with
// the flags that the chart gives it.
func TestChart(t *testing.T) {
	t.Parallel()
	_, dir := publishRelease(t)
	makeChannels(t, dir, "")
	chart := filepath.Join(dir, "kanzen-"+releasedVersion+".tgz")
	helm, err := build("HELM_RENDER", filepath.Join(t.TempDir(), "helm"), "helm", ".")
	must(t, err)
	render := func(t *testing.T, values string) (string, error) {
		t.Helper()
		var errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), helm, "-strict", chart, "api", "kanzen")
		cmd.Stdin, cmd.Stderr = strings.NewReader(values), &errs
		out, err := cmd.Output()
		return string(out) + errs.String(), err
	}

	k := serve(t, filepath.Join(t.TempDir(), "data"))
	kubectl := func(t *testing.T, in string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binaries.kubectl, append([]string{"--kubeconfig", k.kubeconfig()}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, in)
		}
		return string(out)
	}
	kubectl(t, "", "create", "namespace", "kanzen")
	kubectl(t, "", "label", "namespace", "kanzen", "pod-security.kubernetes.io/warn=restricted") // enforce looks at pods only

	all, err := os.ReadFile(filepath.Join("testdata", "chart-values.yaml"))
	must(t, err)
	for name, values := range map[string]string{
		"one server":                "",
		"three servers, as in docs": documentedValues(t),
		"every value":               string(all),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifests, err := render(t, values)
			if err != nil {
				t.Fatalf("%v\n%s", err, manifests)
			}
			out := kubectl(t, manifests, "apply", "--dry-run=server", "--validate=strict", "-n", "kanzen", "-f", "-")
			if strings.Contains(out, "violate") || strings.Contains(out, "unknown field") {
				t.Errorf("the server warns: %s", out)
			}
			checkServerFlags(t, manifests)
		})
	}
	for values, want := range map[string]string{
		"replicas: 3": "replicas of more than one need etcd.servers",
		"etcd: {servers: ['https://10.0.0.1:2379']}":     "etcd.servers needs etcd.clusterKeySecret",
		"etcd: {clusterKeySecret: a}":                    "need etcd.servers",
		"etcd: {servers: ['10.0.0.1:2379']}":             "does not match pattern",
		"replica: 1":                                     "additional properties 'replica' not allowed",
		"{flags: [emulated-version=1.36]}":               "does not match pattern",
		"{service: {type: ExternalName}, hostnames: []}": "value must be one of",
	} {
		if out, err := render(t, values); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v %s, want %q", values, err, out, want)
		}
	}
}

// documentedValues returns the values that docs/install.md shows.
func documentedValues(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile("(?ms)^```yaml\n(replicas: 3\n.*?)^```$").FindStringSubmatch(readPage(t, "../docs/install.md"))
	if m == nil {
		t.Fatal("docs/install.md has no values for three servers")
	}
	return m[1]
}

// checkServerFlags starts kanzen with the arguments of the container in manifests. A server that uses an etcd cluster only has to
// know its flags.
func checkServerFlags(t *testing.T, manifests string) {
	t.Helper()
	var pod *corev1.PodSpec
	for text := range strings.SplitSeq(manifests, "\n---\n") {
		if strings.Contains(text, "kind: StatefulSet") || strings.Contains(text, "kind: Deployment") {
			var workload appsv1.StatefulSet
			must(t, yaml.Unmarshal([]byte(text), &workload))
			pod = &workload.Spec.Template.Spec
		}
	}
	args := slices.Clone(pod.Containers[0].Args)
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "$(POD_IP)", "10.0.0.9")
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--etcd-servers=") }) {
		if _, stderr, code := output(t, binaries.kanzen, append(args, "--help")...); code != 0 {
			t.Errorf("kanzen %s: %s", strings.Join(args, " "), stderr)
		}
		return
	}
	if env := (corev1.EnvVar{Name: "KANZEN_DATA_DIR", Value: "/data/kanzen"}); args[0] != "serve" || !slices.Contains(pod.Containers[0].Env, env) {
		t.Fatalf("the command is %s, the environment %v", args[0], pod.Containers[0].Env)
	}
	k := serve(t, filepath.Join(t.TempDir(), "data"), args[1:]...)
	_, port, err := net.SplitHostPort(k.address) // the address is the advertised one
	must(t, err)
	connection, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the names are looked at below
	must(t, err)
	defer connection.Close()
	for _, name := range []string{"api.kanzen.svc", "api.kanzen.svc.cluster.local"} {
		if err := connection.ConnectionState().PeerCertificates[0].VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}
