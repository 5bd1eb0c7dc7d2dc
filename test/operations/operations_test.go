// Package operations holds the Prometheus rules and the Grafana dashboard of release/monitoring against a running
// server: Prometheus' own parsers accept them, and every metric and label that they name exists. It is a module of its
// own because of what Prometheus' libraries require.
package operations

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const monitoring = "../../release/monitoring/"

// rare are metrics that exist only once something went wrong that this test does not make happen, with the labels that
// the server's source gives them.
var rare = map[string][]string{
	"apiserver_flowcontrol_rejected_requests_total":  {"priority_level"},
	"apiserver_flowcontrol_current_inqueue_requests": {"priority_level"},
	"kanzen_storage_unreadable_objects":              {},
	"kanzen_findings":                                {"name", "severity"},
}

// series is the labels that the series of a metric have.
type series map[string]map[string]bool

func TestExpressionsNameWhatExists(t *testing.T) {
	have := scrape(t)
	queries := expressions(t)
	if len(queries) < 20 {
		t.Fatalf("only %d expressions", len(queries))
	}
	for where, q := range queries {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(q, `instance=~"$instance",`, ""))
		if err != nil {
			t.Errorf("%s: %v\n%s", where, err, q)
			continue
		}
		parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
			switch n := n.(type) {
			case *parser.VectorSelector:
				has, ok := have[n.Name]
				if !ok && n.Name != "up" {
					t.Errorf("%s: there is no metric %s", where, n.Name)
					return nil
				}
				for _, m := range n.LabelMatchers {
					if n.Name != "up" && !slices.Contains([]string{model.MetricNameLabel, "job", "instance"}, m.Name) && !has[m.Name] {
						t.Errorf("%s: %s has no label %s", where, n.Name, m.Name)
					}
				}
				for _, p := range path {
					if a, ok := p.(*parser.AggregateExpr); ok {
						for _, l := range a.Grouping {
							if l != "instance" && !has[l] {
								t.Errorf("%s: %s has no label %s to aggregate by", where, n.Name, l)
							}
						}
					}
				}
			}
			return nil
		})
	}
}

func TestRulesHaveRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range alerts(t) {
		if !strings.Contains(string(page), "\n### "+name+"\n") {
			t.Errorf("docs/operations.md says nothing of %s", name)
		}
	}
}

func rules(t *testing.T) *rulefmt.RuleGroups {
	groups, errs := rulefmt.ParseFile(monitoring+"prometheus-rules.yaml", false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.Fatal("no rules")
	}
	return groups
}

func alerts(t *testing.T) (names []string) {
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			names = append(names, r.Alert)
		}
	}
	return names
}

// expressions returns the expressions of rules and dashboard, by where they stand.
func expressions(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			out["alert "+r.Alert] = r.Expr
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, RefID string }
		}
	}
	b, err := os.ReadFile(monitoring + "grafana-dashboard.json")
	if err == nil {
		err = json.Unmarshal(b, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			out["panel "+p.Title+" "+target.RefID] = target.Expr
		}
	}
	return out
}

// scrape returns the metrics of a server that was used: a webhook was asked that failed, and one that is slow.
func scrape(t *testing.T) series {
	client, url := serve(t)
	slow := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		_ = json.NewDecoder(r.Body).Decode(&review)
		time.Sleep(1010 * time.Millisecond)
		_, _ = io.WriteString(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"`+review.Request.UID+`","allowed":true}}`)
	}))
	defer slow.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: slow.Certificate().Raw}))
	hook := func(name, at, policy string) string {
		return `{"name":"` + name + `.example.com","clientConfig":{"url":"` + at + `","caBundle":"` + ca + `"},"failurePolicy":"` + policy + `","sideEffects":"None","admissionReviewVersions":["v1"],
			"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}`
	}
	post := func(path, body string, code int) {
		resp, err := client.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if said, _ := io.ReadAll(resp.Body); resp.StatusCode != code {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, said)
		}
	}
	const configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	post(configurations, `{"metadata":{"name":"a"},"webhooks":[`+hook("slow", slow.URL, "Fail")+`,`+hook("open", "https://127.0.0.1:1/", "Ignore")+`]}`, 201)
	post("/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`, 201)
	post(configurations, `{"metadata":{"name":"b"},"webhooks":[`+hook("closed", "https://127.0.0.1:1/", "Fail")+`]}`, 201)
	post("/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"b"}}`, 500)
	have := series{}
	for name, of := range rare {
		have[name] = map[string]bool{}
		for _, l := range of {
			have[name][l] = true
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for watched := false; ; { // until the controllers' watches have sent something
		resp, err := client.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			m := line.FindStringSubmatch(s.Text())
			if m == nil {
				continue
			}
			if have[m[1]] == nil {
				have[m[1]] = map[string]bool{}
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				have[m[1]][l[1]] = true
			}
			watched = watched || m[1] == "apiserver_watch_events_total"
		}
		resp.Body.Close()
		if watched {
			break
		}
		resp, err = client.Get(url + "/api/v1/configmaps?watch=1&timeoutSeconds=1")
		if err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	t.Logf("%d metrics", len(slices.Collect(maps.Keys(have))))
	return have
}

var (
	line  = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+$`)
	label = regexp.MustCompile(`(?:^|,)([a-zA-Z_][a-zA-Z0-9_]*)="`)
)

// serve starts a server and returns a client of its administrator, and its URL.
func serve(t *testing.T) (*http.Client, string) {
	program := os.Getenv("KANZEN")
	if program == "" {
		program = filepath.Join(t.TempDir(), "kanzen")
		build := exec.Command("go", "build", "-o", program, "./cmd/kanzen")
		build.Dir = "../.."
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	cmd := exec.Command(program, "serve", "--data-dir", dir, "--secure-port=0", "--planes")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said := bufio.NewScanner(out)
	if !said.Scan() {
		t.Fatal("it does not start")
	}
	url := regexp.MustCompile(`https://\S+`).FindString(said.Text())
	go func() { _, _ = io.Copy(io.Discard, out) }()
	kubeconfig, err := os.ReadFile(filepath.Join(dir, "pki", "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	data := func(key string) []byte {
		m := regexp.MustCompile(key + `:\s*(\S+)`).FindSubmatch(kubeconfig)
		if m == nil {
			t.Fatalf("no %s in the kubeconfig", key)
		}
		b, err := base64.StdEncoding.DecodeString(strings.Trim(string(m[1]), `"`))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	pair, err := tls.X509KeyPair(data("client-certificate-data"), data("client-key-data"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data("certificate-authority-data"))
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}, strings.TrimSuffix(url, ".")
}
