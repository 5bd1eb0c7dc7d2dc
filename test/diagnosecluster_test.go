package test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestDiagnoseSoon stages what is not broken yet: a client's certificate near its end, a watch that nobody reads, a definition that is
// nearly too large, snapshots that were due while no server ran.
func TestDiagnoseSoon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	backups := filepath.Join(dir, "backups")
	must(t, os.MkdirAll(backups, 0o700))
	before := time.Now().Add(-72 * time.Hour).UTC()
	must(t, os.WriteFile(filepath.Join(backups, "kanzen-"+before.Format("20060102T150405Z")+".db"), nil, 0o600))
	k := serve(t, filepath.Join(dir, "data"), "--snapshot-schedule=@daily", "--snapshot-dir="+backups)
	k.looksOn(t)
	ctx, admin := t.Context(), k.as("", "setup", nil)

	k.diagnosed(t, "SnapshotOld", "Warning", "a scheduled snapshot is late", before.Format("2006-01-02T"), "the server was down")

	ca, caKey := k.authority(t)
	cert, key := issued(t, pkix.Name{CommonName: "robot", Organization: []string{"system:masters"}}, time.Now().Add(-360*24*time.Hour), time.Now().Add(3*24*time.Hour), ca, caKey)
	c := k.config()
	c.CertFile, c.KeyFile, c.CertData, c.KeyData, c.UserAgent = "", "", cert, key, "pipeline/v3"
	if err := kubernetes.NewForConfigOrDie(c).RESTClient().Get().AbsPath("/api/v1/pods").Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	k.diagnosed(t, "CredentialExpiring", "Warning", "the certificate of robot expires in 3 days", "pipeline/v3 from 127.0.0.1", "made for 363 days")

	d := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, ObjectMeta: metav1.ObjectMeta{Name: "novels.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "novels", Kind: "Novel"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Description: strings.Repeat("all about it ", 90000)}}}}}}
	body, err := json.Marshal(d)
	must(t, err)
	must(t, admin.RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error())
	k.diagnosed(t, "DefinitionCostly", "Info", "definition novels.example.com costs much", "cannot grow beyond 1.5 MiB", "kubectl get crd novels.example.com")

	unread(t, k, "/api/v1/configmaps?watch=true")
	large := strings.Repeat("x", 900<<10)
	for n := range 24 {
		m := configMap(fmt.Sprint("large-", n))
		m.Data = map[string]string{"a": large}
		_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, m, metav1.CreateOptions{})
		must(t, err)
	}
	k.diagnosed(t, "WatcherSlow", "Warning", "sleepy/v1 does not read its watch of configmaps", "has read nothing for", "kubernetes-admin from 127.0.0.1")
}

// unread sends a request whose answer nobody reads.
func unread(t *testing.T, k *kanzen, path string) {
	t.Helper()
	c := k.config()
	must(t, kubernetes.NewForConfigOrDie(c).RESTClient().Get().AbsPath("/version").Do(t.Context()).Error())
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if c.CertFile == "" {
		pair, err = tls.X509KeyPair(c.CertData, c.KeyData)
	}
	must(t, err)
	authority, err := os.ReadFile(filepath.Join(k.dir, "pki", "ca.crt"))
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	conn, err := tls.Dial("tcp", k.address, &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots})
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: sleepy/v1\r\nAccept: application/json\r\n\r\n", path, k.address)
	must(t, err)
}

// TestDiagnoseServers has two servers of a cluster that differ in a flag.
func TestDiagnoseServers(t *testing.T) {
	t.Parallel()
	etcd, dir := etcdServer(t), t.TempDir()
	first := serve(t, filepath.Join(dir, "a"), "--etcd-servers="+etcd, "--external-hostname=alpha")
	same := serve(t, filepath.Join(dir, "b"), "--etcd-servers="+etcd, "--external-hostname=beta")
	time.Sleep(time.Second)
	for _, k := range []*kanzen{first, same} {
		if all, _ := k.findings(); len(all) != 0 {
			t.Errorf("of equal servers: %+v", all)
		}
	}
	serve(t, filepath.Join(dir, "c"), "--etcd-servers="+etcd, "--external-hostname=gamma", "--event-ttl=2h", "--disable-admission-plugins=LimitRanger")
	first.diagnosed(t, "ServersDiffer", "Warning", "server gamma has other settings than alpha", "they differ in --disable-admission-plugins and --event-ttl")
}
