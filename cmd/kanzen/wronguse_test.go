package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// anyText are flags of `kanzen serve` that take any text, with the reason.
var anyText = map[string]string{
	"api-audiences": "names", "requestheader-allowed-names": "names", "etcd-name": "a name", "tls-san": "names", "external-hostname": "a name",
	"requestheader-extra-headers-prefix": "headers", "requestheader-group-headers": "headers", "requestheader-username-headers": "headers",
	"oidc-client-id": "a name", "oidc-groups-claim": "a name", "oidc-groups-prefix": "a text", "oidc-username-claim": "a name", "oidc-username-prefix": "a text",
	"kubelet-preferred-address-types":  "types of addresses are what nodes say",
	"service-account-jwks-uri":         "a warning says that tokens cannot be verified by others",
	"service-account-signing-endpoint": "the signer is waited for",
	"disabled-metrics":                 "names",
	"etcd-prefix":                      "a name",
	"cert-dir":                         "it is made",
	"audit-log-path":                   "it is made",
	"flight-recorder-dir":              "it is made",
}

// needed are flags without which another one is not looked at.
var needed = map[string]string{
	"audit-log-":                           "--audit-log-path=DIR/audit",
	"audit-webhook-":                       "--audit-webhook-config-file=DIR/kubeconfig",
	"authentication-token-webhook-version": "--authentication-token-webhook-config-file=DIR/kubeconfig",
	"authorization-policy-file":            "--authorization-mode=ABAC",
	"authorization-webhook-config-file":    "--authorization-mode=Webhook",
	"authorization-webhook-version":        "--authorization-mode=Webhook --authorization-webhook-config-file=DIR/kubeconfig",
	"oidc-ca-file":                         "--oidc-issuer-url=https://127.0.0.1:1 --oidc-client-id=a",
	"oidc-required-claim":                  "--oidc-issuer-url=https://127.0.0.1:1 --oidc-client-id=a",
	"oidc-signing-algs":                    "--oidc-issuer-url=https://127.0.0.1:1 --oidc-client-id=a",
	"oidc-issuer-url":                      "--oidc-client-id=a",
	"snapshot-s3-url":                      "--snapshot-s3-bucket=a --snapshot-schedule=@hourly",
	"snapshot-schedule":                    "--snapshot-dir=DIR/snapshots",
}

const webhookAt = `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
  clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: a, user: {}}]}`

// TestEveryFlagIsChecked gives each flag of `kanzen serve` values that are wrong for its type. The answer is one line with the
// flag's name, in plain words, and no server.
func TestEveryFlagIsChecked(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"garbage": "x", "kubeconfig": webhookAt} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if config.Group(f) == config.WithoutEffect || strings.HasPrefix(f.Name, "help") || f.Name == "data-dir" || anyText[f.Name] != "" || namesFile(f) {
			return // files: TestEveryFileIsChecked
		}
		values := []string{"nonsense"}
		if f.Name == "debug-socket-path" {
			values = []string{"/no/such/file", "DIR/garbage", "DIR"}
		}
		for _, v := range values {
			n++
			args := "--" + f.Name + "=" + v
			for prefix, flags := range needed {
				if strings.HasPrefix(f.Name, prefix) {
					args = flags + " " + args
				}
			}
			if args == "--service-account-issuer=nonsense" { // a name without a colon is one
				continue
			}
			err := tryServe(t, strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)
			if err == nil {
				t.Errorf("%s is taken", args)
				continue
			}
			said := lines(err)
			t.Logf("%s: %s", args, said)
			text := strings.Join(said, "\n")
			if len(said) != 1 || strings.Contains(text, "\n") || !strings.Contains(text, "--"+f.Name) || strings.Contains(text, "strconv") || strings.Contains(text, "Go value") {
				t.Errorf("%s: %q, want one line with the flag's name, for people who do not read Go", args, said)
			}
		}
	})
	if n < 80 {
		t.Errorf("only %d values were tried", n)
	}
}

// negative are flags of numbers that may be negative, with the reason; upstream takes negative times to live as none.
var negative = map[string]string{
	"default-not-ready-toleration-seconds": "at once", "default-unreachable-toleration-seconds": "at once",
	"authentication-token-webhook-cache-ttl": "none", "authorization-webhook-cache-authorized-ttl": "none", "authorization-webhook-cache-unauthorized-ttl": "none",
	"audit-log-batch-throttle-qps": "not used", "audit-log-batch-throttle-burst": "not used", "audit-log-batch-max-wait": "none", "audit-webhook-batch-max-wait": "none", "audit-webhook-initial-backoff": "none", "audit-webhook-batch-initial-backoff": "none",
}

// TestNumbersAreChecked gives each flag of a number or a time values that are negative or huge. One that makes no sense is
// refused in one line with the flag's name; with all others at once a server comes up.
func TestNumbersAreChecked(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"kubeconfig": webhookAt, "policy": "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"--audit-log-path=DIR/audit", "--audit-webhook-config-file=DIR/kubeconfig", "--audit-policy-file=DIR/policy",
		"--audit-log-mode=batch", "--authentication-token-webhook-config-file=DIR/kubeconfig"}
	n := 0
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if config.Group(f) == config.WithoutEffect || f.Name == "secure-port" || f.Deprecated != "" {
			return
		}
		var below string
		var above []string
		switch kind := f.Value.Type(); {
		case kind == "duration":
			below, above = "-5s", []string{"2562047h"}
		case strings.HasPrefix(kind, "int") && !strings.HasSuffix(kind, "Slice"), strings.HasPrefix(kind, "uint"), strings.HasPrefix(kind, "float"):
			below, above = "-1", []string{"9223372036854775807", "2147483647", "10000000"}
		default:
			return
		}
		n++
		if err := accepted(dir, append(all[:5:5], "--"+f.Name+"="+below)...); (err == nil) != (negative[f.Name] != "") {
			t.Errorf("--%s=%s: %v", f.Name, below, err)
		} else if err != nil {
			namesFlag(t, f.Name, err)
		}
		for _, v := range above {
			if err := accepted(dir, append(all[:5:5], "--"+f.Name+"="+v)...); err != nil {
				namesFlag(t, f.Name, err)
			} else if f.Name == "shutdown-delay-duration" {
				break // the server would not end
			} else if err := accepted(dir, append(all[:len(all):len(all)], "--"+f.Name+"="+v)...); err == nil {
				all = append(all, "--"+f.Name+"="+v)
				break
			}
		}
	})
	if n < 50 || len(all) < 40 {
		t.Errorf("only %d flags are numbers, and %d large values are taken", n, len(all))
	}
	// A server sends its audit events before it ends, again and again if nobody takes them.
	all = slices.DeleteFunc(all, func(a string) bool { return strings.HasPrefix(a, "--audit-webhook-") })
	// How large a value may be is for another engine than the flags of etcd are.
	ofPebble := slices.IndexFunc(all, func(a string) bool { return strings.HasPrefix(a, "--pebble-max-value-bytes=") })
	if ofPebble < 0 {
		t.Fatal("no large value of --pebble-max-value-bytes is taken")
	}
	if err := tryServe(t, "--engine=pebble", all[ofPebble]); err != nil {
		t.Errorf("a server with %s: %v", all[ofPebble], err)
	}
	all = slices.Delete(all, ofPebble, ofPebble+1)
	t.Log(all)
	if err := tryServe(t, strings.Fields(strings.ReplaceAll(strings.Join(all, " "), "DIR", dir))...); err != nil {
		t.Errorf("a server with the largest values of all: %v", err)
	}
}

// accepted says what is wrong with flags, as far as that is known without a start.
func accepted(dir string, args ...string) error {
	cfg := config.Standalone()
	cfg.DataDir = dir
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	cfg.AddFlags(fs, true)
	if err := fs.Parse(strings.Fields(strings.ReplaceAll(strings.Join(args, " "), "DIR", dir))); err != nil {
		return flagError(nil, err)
	}
	_, _, err := cfg.Validate()
	return err
}

func namesFlag(t *testing.T, flag string, err error) {
	t.Helper()
	if said := lines(err); len(said) != 1 || !strings.Contains(said[0], "--"+flag) || strings.ContainsAny(said[0], "\n") {
		t.Errorf("--%s: %q, want one line with the flag's name", flag, said)
	}
}

// tryServe starts a server, ends it once it serves, and returns its error.
func tryServe(t *testing.T, args ...string) error {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // now, and not when the test ends: etcd reserves 128 MB in each
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := rootCommand()
	cmd.SetArgs(append([]string{"serve", "--data-dir", filepath.Join(dir, "data"), "--secure-port=0"}, args...))
	cmd.SetOut(&onWrite{func() { cancel() }, &bytes.Buffer{}})
	cmd.SetErr(io.Discard)
	return cmd.ExecuteContext(ctx)
}

// onWrite calls a func when something is written.
type onWrite struct {
	f  func()
	to io.Writer
}

func (w *onWrite) Write(b []byte) (int, error) {
	w.f()
	return w.to.Write(b)
}
