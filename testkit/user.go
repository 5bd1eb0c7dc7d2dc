package testkit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// User is a user of a server, with a client certificate.
type User struct {
	Access
	Name   string
	Groups []string
}

// User makes a user with roles, each given in one line:
//
//	"view"                               the ClusterRole view, in all namespaces
//	"edit in team-a"                     the ClusterRole edit, or else the Role edit, in the namespace team-a
//	"get,list pods,deployments.apps"     these verbs on these resources, in all namespaces
//	"* configmaps in team-a"             the same, in one namespace
//
// The user may act at once. A role that does not exist, and a resource that is not served, fail the test. See AddUser for
// groups and without a test.
func (s *Server) User(t TB, name string, roles ...string) *User {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.options.timeout())
	defer cancel()
	u, err := s.AddUser(ctx, name, nil, roles...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// AddUser is User with groups.
func (s *Server) AddUser(ctx context.Context, name string, groups []string, roles ...string) (*User, error) {
	u := &User{Name: name, Groups: groups}
	for n, line := range roles {
		if err := s.grant(ctx, name, fmt.Sprintf("testkit:%s:%d", name, n), line); err != nil {
			return nil, fmt.Errorf("testkit: role %q of %s: %w", line, name, s.process.explained(err))
		}
	}
	if err := s.issue(ctx, u); err != nil {
		return nil, fmt.Errorf("testkit: a certificate of %s: %w", name, s.process.explained(err))
	}
	return u, nil
}

const (
	rbacGroup   = "rbac.authorization.k8s.io"
	rbacVersion = rbacGroup + "/v1"
	rbacPath    = "/apis/" + rbacVersion
)

type rule struct {
	Verbs         []string `json:"verbs"`
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
}

// role is a ClusterRole or, with a namespace, a Role.
type role struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Rules      []rule   `json:"rules"`
}

// grant gives a user one role, and waits until the server acts by it.
func (s *Server) grant(ctx context.Context, user, name, line string) error {
	what, namespace, _ := strings.Cut(line, " in ")
	namespace = strings.TrimSpace(namespace)
	var given *role
	var err error
	switch words := strings.Fields(what); len(words) {
	case 1:
		given, err = s.role(ctx, words[0], namespace)
	case 2:
		given = &role{APIVersion: rbacVersion, Kind: "ClusterRole", Metadata: metadata{Name: name, Namespace: namespace}}
		if namespace != "" {
			given.Kind = "Role"
		}
		if given.Rules, err = s.rules(ctx, words[0], words[1]); err == nil {
			err = s.install(ctx, []Source{Objects(given)})
		}
	default:
		err = errors.New(`write "ROLE", "ROLE in NAMESPACE", "VERBS RESOURCES" or "VERBS RESOURCES in NAMESPACE"`)
	}
	if err != nil {
		return err
	}
	binding := object{
		"apiVersion": rbacVersion, "kind": "ClusterRoleBinding", "metadata": metadata{Name: name, Namespace: namespace},
		"subjects": []any{map[string]any{"apiGroup": rbacGroup, "kind": "User", "name": user}},
		"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": given.Kind, "name": given.Metadata.Name},
	}
	if namespace != "" {
		binding["kind"] = "RoleBinding"
	}
	if err := s.install(ctx, []Source{Objects(binding)}); err != nil {
		return err
	}
	return s.allowed(ctx, user, namespace, given)
}

// role returns a role that exists.
func (s *Server) role(ctx context.Context, name, namespace string) (*role, error) {
	r := &role{}
	err := s.client.get(ctx, rbacPath+"/clusterroles/"+url.PathEscape(name), r)
	if isCode(err, http.StatusNotFound) && namespace != "" {
		err = s.client.get(ctx, rbacPath+"/namespaces/"+url.PathEscape(namespace)+"/roles/"+url.PathEscape(name), r)
	}
	if !isCode(err, http.StatusNotFound) {
		return r, err
	}
	var list struct{ Items []role }
	if err := s.client.get(ctx, rbacPath+"/clusterroles", &list); err != nil {
		return nil, err
	}
	var names []string
	for _, each := range list.Items {
		if !strings.Contains(each.Metadata.Name, ":") { // those are the server's and this package's own
			names = append(names, each.Metadata.Name)
		}
	}
	return nil, fmt.Errorf("there is no role %q; the server has %s", name, strings.Join(names, ", "))
}

// rules reads verbs and resources, separated by commas. Resources are named as kubectl names them: deployments.apps.
func (s *Server) rules(ctx context.Context, verbs, resources string) ([]rule, error) {
	var out []rule
	for _, r := range strings.Split(resources, ",") {
		name, group, _ := strings.Cut(r, ".")
		if r == "*" {
			group = "*"
		} else if err := s.served(ctx, name, group); err != nil {
			return nil, err
		}
		out = append(out, rule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: []string{name}})
	}
	return out, nil
}

// served returns an error if a group has no such resource.
func (s *Server) served(ctx context.Context, name, group string) error {
	versions := []string{"v1"}
	if group != "" {
		var g struct {
			Versions []struct{ GroupVersion string }
		}
		err := s.client.get(ctx, "/apis/"+group, &g)
		if isCode(err, http.StatusNotFound) {
			return fmt.Errorf("there is no group %q", group)
		}
		if err != nil {
			return err
		}
		versions = nil
		for _, v := range g.Versions {
			versions = append(versions, v.GroupVersion)
		}
	}
	for _, v := range versions {
		var list struct{ Resources []resource }
		if err := s.client.get(ctx, resource{groupVersion: v}.path(""), &list); err != nil {
			return err
		}
		for _, r := range list.Resources {
			if r.Name == name || name == "*" {
				return nil
			}
		}
	}
	if group == "" {
		return fmt.Errorf("there is no resource %q; one of another group is written as deployments.apps", name)
	}
	return fmt.Errorf("the group %s has no resource %q", group, name)
}

// allowed waits until a user may do what a role is for: writes of roles are answered before the authorizer has seen them. It
// asks for each rule, because the user may have some by another role.
func (s *Server) allowed(ctx context.Context, user, namespace string, by *role) error {
	first := func(list []string, instead string) string {
		if len(list) == 0 || list[0] == "*" {
			return instead
		}
		return list[0]
	}
	for _, r := range by.Rules {
		if len(r.Resources) == 0 || len(r.ResourceNames) > 0 {
			continue // of other paths, or of single objects
		}
		resource, sub, _ := strings.Cut(first(r.Resources, "anything"), "/")
		review := map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": map[string]any{
			"user": user, "resourceAttributes": map[string]any{
				"namespace": namespace, "verb": first(r.Verbs, "get"), "group": first(r.APIGroups, "any"), "resource": resource, "subresource": sub,
			}}}
		err := poll(ctx, "the role is not in force", func() (bool, error) {
			var answer struct{ Status struct{ Allowed bool } }
			err := s.client.do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, &answer)
			return answer.Status.Allowed, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// certificateLife is how long certificates for tests are valid.
const certificateLife = 30 * 24 * time.Hour

// issue has the server's authority sign a certificate of a user.
func (s *Server) issue(ctx context.Context, u *User) error {
	cert, key, err := s.authority(ctx)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	issuer, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: u.Name, Organization: u.Groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, issuer, own.Public(), pair.PrivateKey)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return err
	}
	u.Access = Access{URL: s.URL, CA: s.CA,
		ClientCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		ClientKey:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})}
	return u.write(filepath.Join(s.process.dir, fmt.Sprintf("user-%x.kubeconfig", serial)), u.Name)
}

// authority returns the authority of the clients' certificates and its key.
func (s *Server) authority(ctx context.Context) (cert, key []byte, err error) {
	if s.plane != "" {
		var keys secret
		err := s.process.client.get(ctx, planeSecretsPath+s.plane+"-keys", &keys)
		return keys.Data["ca.crt"], keys.Data["ca.key"], err
	}
	if cert, err = os.ReadFile(filepath.Join(s.process.dir, "ca.crt")); err != nil {
		return nil, nil, err
	}
	key, err = os.ReadFile(filepath.Join(s.process.dir, "ca.key"))
	return cert, key, err
}
