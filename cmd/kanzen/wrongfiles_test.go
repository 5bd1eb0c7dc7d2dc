package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// pairs are flags of certificates with the flag of their key: one is not looked at without the other.
var pairs = map[string]string{
	"tls-cert-file": "tls-private-key-file", "proxy-client-cert-file": "proxy-client-key-file", "etcd-certfile": "etcd-keyfile",
	"kubelet-client-certificate": "kubelet-client-key",
}

// namesFile tells flags that name a file that must be there.
func namesFile(f *pflag.Flag) bool {
	return strings.HasPrefix(f.Value.Type(), "string") && (f.Name == "kubeconfig" || isFile.MatchString(f.Name))
}

var isFile = regexp.MustCompile(`(-|ca|cert|key)file$|-(config|config-file|kubeconfig|key|certificate|authority|manifest)$`)

// holdsPEM tells flags whose files hold certificates or keys.
var holdsPEM = regexp.MustCompile(`(ca|cert|key|signing)-?file$|ca-file$|-(key|certificate|authority)$`)

// otherFiles are flags of files whose content looks wrong and is not, with the reason.
var otherFiles = map[string]string{
	"authorization-policy-file=empty": "no policies", "token-auth-file=empty": "no tokens", "oidc-ca-file=empty": "the system's authorities",
	"allow-metric-labels-manifest=empty": "no lists",
}

// TestEveryFileIsChecked gives each flag of each command that names a file what people name by mistake. The answer is one line
// with the flag's name or the path, exit code 1, and no directory of data is left behind.
func TestEveryFileIsChecked(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t)
	_, otherKey := selfSigned(t)
	for name, text := range map[string]string{
		"policy": "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}", "empty": "", "text": "hello\n", "kubeconfig": webhookAt, "broken": "{a: [",
		"cert": cert, "key": key, "other-key": otherKey, "half-cert": cert[:len(cert)/2], "half-key": key[:len(key)/2],
		"sealed-key": string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("sealed")})),
		"dead":       webhookAt, "other-context": strings.ReplaceAll(webhookAt, "current-context: a", "current-context: b"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	n := 0
	try := func(root func() *cobra.Command, cmd *cobra.Command, f *pflag.Flag, content string, more ...string) {
		n++
		data := filepath.Join(t.TempDir(), "data")
		words := strings.Fields(cmd.CommandPath())[1:]
		switch cmd.Name() {
		case "serve":
			more = append(more, "--data-dir="+data, "--secure-port=0")
		case "kube-apiserver":
			more = append(more, "--etcd-servers=http://127.0.0.1:1", "--cert-dir="+data, "--service-account-issuer=https://a.example",
				"--service-account-key-file="+at("key"), "--service-account-signing-key-file="+at("key"))
		default:
			if cmd.Flags().Lookup("data-dir") != nil {
				more = append(more, "--data-dir="+data)
			}
		}
		args := append(append(append(words, more...), "--"+f.Name+"="+at(content)), arguments[cmd.CommandPath()]...)
		what := strings.ReplaceAll(strings.Join(args, " "), dir, "DIR")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := root()
		c.SetArgs(args)
		c.SetOut(&onWrite{cancel, io.Discard})
		c.SetErr(io.Discard)
		c.SetIn(strings.NewReader(""))
		err := c.ExecuteContext(ctx)
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v (%v), want an error", what, err, ctx.Err())
			return
		}
		var said bytes.Buffer
		if code := exitCode(&said, err); code != 1 {
			t.Errorf("%s: exit code %d", what, code)
		}
		t.Logf("%s: %s", what, said.String())
		if text := said.String(); strings.Count(text, "\n") != 1 ||
			!strings.Contains(text, "--"+f.Name) && !strings.Contains(text, at(content)) && (content != "dead" || !strings.Contains(text, "https://127.0.0.1:1")) ||
			content == "sealed-key" && !strings.Contains(text, "passphrase") || strings.Contains(text, "goroutine ") || strings.Contains(text, "Go value") {
			t.Errorf("%s: %q, want one line that names the flag or the path", what, text)
		}
		if _, err := os.Lstat(data); err == nil && cmd.Name() != "kube-apiserver" {
			t.Errorf("%s: leaves %s", what, data)
		}
	}
	for _, root := range []func() *cobra.Command{rootCommand, apiserverCommand} {
		leaves(root(), func(cmd *cobra.Command) {
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if afterSnapshot[cmd.CommandPath()] || config.Group(f) == config.WithoutEffect || !namesFile(f) {
					return
				}
				contents := []string{"missing", ".", "empty", "text", "broken"}
				if cmd.Name() == "test" {
					contents = contents[:1] // its flags are those of serve
				}
				more := []string{}
				if f.Name == "audit-webhook-config-file" {
					more = append(more, "--audit-policy-file="+at("policy")) // without one, kube-apiserver records nothing
				}
				if cmd.Flags().Lookup("etcd-servers") != nil && strings.HasPrefix(f.Name, "etcd-") {
					more = append(more, "--etcd-servers=https://127.0.0.1:1")
				}
				if f.Name == "kubeconfig" && cmd.Flags().Lookup("secure-port") == nil {
					contents = append(contents, "dead", "other-context")
				}
				if holdsPEM.MatchString(f.Name) && cmd.Name() != "test" {
					contents = append(contents[:4], "half-cert", "half-key")
				}
				for certFlag, keyFlag := range pairs {
					switch f.Name {
					case certFlag:
						more = append(more, "--"+keyFlag+"="+at("key"))
						contents = append(contents, "key")
					case keyFlag:
						more = append(more, "--"+certFlag+"="+at("cert"))
						contents = append(contents, "other-key", "cert", "sealed-key")
					}
				}
				if strings.HasPrefix(f.Name, "service-account-") && holdsPEM.MatchString(f.Name) && cmd.Name() != "test" {
					contents = append(contents, "sealed-key")
				}
				for prefix, flags := range needed {
					if strings.HasPrefix(f.Name, prefix) {
						more = append(more, strings.Fields(strings.ReplaceAll(flags, "DIR", dir))...)
					}
				}
				for _, content := range contents {
					if _, ok := otherFiles[f.Name+"="+content]; !ok {
						try(root, cmd, f, content, more...)
					}
				}
			})
		})
	}
	if n < 250 {
		t.Errorf("only %d files were tried", n)
	}
}

// arguments are what commands need beside flags.
var arguments = map[string][]string{
	"kanzen test": {"--", "true"}, "kanzen snapshot save": {"unsaved.db"}, "kanzen plane export": {"a", "unsaved.db"}, "kanzen plane move": {"a", "--to=b"}, "kanzen member add": {"two", "https://127.0.0.1:2"}, "kanzen member remove": {"two"},
	"kanzen migrate": {"--to=pebble", "--from=etcds://127.0.0.1:1"},
	"kanzen apply":   {"-f", "kwok.yaml"}, "kanzen plan": {"-f", "kwok.yaml"},
	"kanzen fork create": {"a"}, "kanzen fork delete": {"a"}, "kanzen fork diff": {"a"}, "kanzen fork merge": {"a"}, "kanzen fork kubeconfig": {"a"},
	"kanzen history": {"namespace/default"}, "kanzen get": {"namespace/default"}, "kanzen diff": {"namespace/default@1h"}, "kanzen blame": {"namespace/default"},
	"kanzen undelete": {"namespace/default"}, "kanzen forget": {"namespace/default"},
	"kanzen why": {"namespace/default"}, "kanzen explain-access": {"get", "pods", "--as=alice"}, "kanzen grant": {"get", "pods", "--as=alice"},
}

// afterSnapshot are commands that look at other files once they have read a snapshot.
var afterSnapshot = map[string]bool{"kanzen snapshot inspect": true, "kanzen snapshot diff": true, "kanzen snapshot restore": true, "kanzen plane import": true}

// leaves calls f with each command that does something by itself.
func leaves(cmd *cobra.Command, f func(*cobra.Command)) {
	if cmd.Runnable() && !cmd.DisableFlagParsing {
		f(cmd)
	}
	for _, c := range cmd.Commands() {
		leaves(c, f)
	}
}

// selfSigned returns a certificate and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	c, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
