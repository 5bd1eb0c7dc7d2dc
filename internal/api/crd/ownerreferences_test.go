package crd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// To make a custom resource block the deletion of its owner, a user needs permission for the owner's finalizers. To
// change its owners, a user needs permission to delete it.
func TestOwnersThatBlock(t *testing.T) {
	s := kanzentest.Start(t, kanzentest.Flags("--enable-admission-plugins=OwnerReferencesPermissionEnforcement"))
	c := &cluster{t, s.Config(), dynamic.NewForConfigOrDie(s.Config())}
	c.define(definition("things", nil))
	c.create("v1", "things", "owner", nil)
	owner, err := c.client.Resource(things("v1", "things")).Get(t.Context(), "owner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k := kubernetes.NewForConfigOrDie(s.Config())
	grant := func(name string, verbs []string, resource string) {
		t.Helper()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{resource}, Verbs: verbs}}}
		if _, err := k.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "dev"}}}
		if _, err := k.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	dev := dynamic.NewForConfigOrDie(s.ConfigFor("dev", user.AllAuthenticated)).Resource(things("v1", "things"))
	allowed := func(f func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			err := f(ctx)
			if err == nil {
				return
			}
			if ctx.Err() != nil || !apierrors.IsForbidden(err) {
				t.Fatal(err)
			}
		}
	}
	refused := func(err error, want string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	grant("write", []string{"create", "update", "get"}, "things")
	allowed(func(ctx context.Context) error {
		_, err := dev.Create(ctx, thing("v1", "free", nil), metav1.CreateOptions{})
		return err
	})
	block := true
	ref := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "owner", UID: owner.GetUID()}
	free, err := dev.Get(t.Context(), "free", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	free.SetOwnerReferences([]metav1.OwnerReference{ref})
	_, err = dev.Update(t.Context(), free, metav1.UpdateOptions{})
	refused(err, "cannot set an ownerRef on a resource you can't delete")
	ref.BlockOwnerDeletion = &block
	held := thing("v1", "held", nil)
	held.SetOwnerReferences([]metav1.OwnerReference{ref})
	_, err = dev.Create(t.Context(), held, metav1.CreateOptions{})
	refused(err, "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on")
	grant("finalize", []string{"update"}, "things/finalizers")
	allowed(func(ctx context.Context) error { _, err := dev.Create(ctx, held, metav1.CreateOptions{}); return err })
	unknown := thing("v1", "unknown", nil)
	ref.Kind = "Nothing"
	unknown.SetOwnerReferences([]metav1.OwnerReference{ref})
	_, err = dev.Create(t.Context(), unknown, metav1.CreateOptions{})
	refused(err, "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1 Kind Nothing")
}
