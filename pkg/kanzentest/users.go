package kanzentest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// Identity is a user of a server.
type Identity struct {
	Name string
	// Groups do not name system:authenticated, in which every user is who is not system:anonymous.
	Groups []string

	server *Server
}

// User makes a user with roles, each given in one line:
//
//	"view"                               the ClusterRole view, in all namespaces
//	"edit in team-a"                     the ClusterRole edit, or else the Role edit, in the namespace team-a
//	"get,list pods,deployments.apps"     these verbs on these resources, in all namespaces
//	"* configmaps in team-a"             the same, in one namespace
//
// The user may act at once. A role that does not exist fails the test. See AddUser for groups and without a test.
func (s *Server) User(t testing.TB, name string, roles ...string) *Identity {
	t.Helper()
	u, err := s.AddUser(t.Context(), name, nil, roles...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// AddUser is User with groups.
func (s *Server) AddUser(ctx context.Context, name string, groups []string, roles ...string) (*Identity, error) {
	for n, line := range roles {
		if err := s.grant(ctx, name, fmt.Sprintf("kanzentest:%s:%d", name, n), line); err != nil {
			return nil, fmt.Errorf("kanzentest: role %q of %s: %w", line, name, err)
		}
	}
	if len(roles) > 0 {
		if err := s.plane.CatchUp(ctx); err != nil {
			return nil, fmt.Errorf("kanzentest: %w", err)
		}
	}
	return &Identity{Name: name, Groups: groups, server: s}, nil
}

// grant gives a user one role.
func (s *Server) grant(ctx context.Context, userName, name, line string) error {
	what, namespace, _ := strings.Cut(line, " in ")
	words := strings.Fields(what)
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole"}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: userName}}
	meta := metav1.ObjectMeta{Name: name, Namespace: strings.TrimSpace(namespace)}
	var objects []runtime.Object
	switch len(words) {
	case 1:
		var err error
		if ref, err = s.roleRef(ctx, words[0], meta.Namespace); err != nil {
			return err
		}
	case 2:
		rules := rulesOf(words[0], words[1])
		if ref.Name = name; meta.Namespace == "" {
			objects = append(objects, &rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: meta, Rules: rules})
		} else {
			ref.Kind = "Role"
			objects = append(objects, &rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: meta, Rules: rules})
		}
	default:
		return errors.New(`write "ROLE", "ROLE in NAMESPACE", "VERBS RESOURCES" or "VERBS RESOURCES in NAMESPACE"`)
	}
	if meta.Namespace == "" {
		objects = append(objects, &rbacv1.ClusterRoleBinding{TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
	} else {
		objects = append(objects, &rbacv1.RoleBinding{TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
	}
	return s.install(ctx, Objects(objects...))
}

// roleRef names a role that exists: a binding of one that does not is valid, and the test would wonder later about a 403.
func (s *Server) roleRef(ctx context.Context, name, namespace string) (rbacv1.RoleRef, error) {
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	c, err := s.clients()
	if err != nil {
		return ref, err
	}
	roles := c.Resource(rbacv1.SchemeGroupVersion.WithResource("clusterroles"))
	_, err = roles.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && namespace != "" {
		ref.Kind = "Role"
		_, err = c.Resource(rbacv1.SchemeGroupVersion.WithResource("roles")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if !apierrors.IsNotFound(err) {
		return ref, err
	}
	list, err := roles.List(ctx, metav1.ListOptions{})
	if err != nil {
		return ref, err
	}
	var names []string
	for i := range list.Items {
		if n := list.Items[i].GetName(); !strings.Contains(n, ":") { // those are the server's and this package's own
			names = append(names, n)
		}
	}
	return ref, fmt.Errorf("there is no role %q; the server has %s", name, strings.Join(names, ", "))
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// rulesOf reads verbs and resources, separated by commas.
func rulesOf(verbs, resources string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, r := range strings.Split(resources, ",") {
		name, group, _ := strings.Cut(r, ".")
		if r == "*" {
			group = "*"
		}
		rules = append(rules, rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: []string{name}})
	}
	return rules
}

// Config reaches the server without a socket as the user.
func (u *Identity) Config() *rest.Config { return u.server.ConfigFor(u.Name, u.Groups...) }

// SocketConfig reaches the server by its socket as the user, with a client certificate. It needs Listen.
func (u *Identity) SocketConfig() (*rest.Config, error) {
	k, err := u.credentials()
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: k.Server, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: k.CA, CertData: k.ClientCert, KeyData: k.ClientKey}}, nil
}

// Kubeconfig returns a kubeconfig of the user, with a client certificate, for programs that reach the server by its
// socket. It needs Listen.
func (u *Identity) Kubeconfig() ([]byte, error) {
	k, err := u.credentials()
	if err != nil {
		return nil, err
	}
	return k.YAML()
}

// credentials has the server's authority sign a certificate of the user.
func (u *Identity) credentials() (*pki.Kubeconfig, error) {
	s := u.server
	if s.Address() == "" {
		return nil, errors.New("kanzentest: the server has no socket; see Listen")
	}
	files := s.plane.Files()
	authority, err := pki.LoadAuthority(files.CACert, files.CAKey)
	if err != nil {
		return nil, fmt.Errorf("kanzentest: %w", err)
	}
	ca, err := os.ReadFile(files.CACert)
	if err != nil {
		return nil, fmt.Errorf("kanzentest: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("kanzentest: %w", err)
	}
	der, err := authority.Issue(pki.Subject{Name: u.Name, Groups: u.Groups}, key.Public(), s.ground.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("kanzentest: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("kanzentest: %w", err)
	}
	return &pki.Kubeconfig{
		Cluster: "kanzentest", User: u.Name, Server: "https://" + s.Address(), CA: ca,
		ClientCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		ClientKey:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

// userInfo adds the groups that authentication gives to everybody.
func userInfo(name string, groups []string) *user.DefaultInfo {
	groups = slices.Clone(groups)
	add := func(g string) {
		if !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		for _, g := range serviceaccount.MakeGroupNames(namespace) {
			add(g)
		}
	}
	if name == user.Anonymous {
		add(user.AllUnauthenticated)
	} else if !slices.Contains(groups, user.AllUnauthenticated) {
		add(user.AllAuthenticated)
	}
	return &user.DefaultInfo{Name: name, Groups: groups}
}
