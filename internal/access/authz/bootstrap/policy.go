// Package bootstrap is the RBAC policy that every cluster starts with: the roles of control plane components and the
// default user roles. It computes how existing objects must change to match the policy; the caller reads and writes
// them.
package bootstrap

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// policy contains one object per line, without the fields that all objects share. An object, or a rule of a role, may have
// gates: it is there if these features are on, and those after "!" off.
//
//go:generate sh -c "cd ../../../../bench/peer && go run ./policy > ../../internal/access/authz/bootstrap/policy.jsonl"
//go:embed policy.jsonl
var policy []byte

// Objects is a set of roles and bindings, each kind sorted by name.
type Objects struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// Policy returns the policy of a server whose features are on or not. The caller owns the objects.
func Policy(on func(gate string) bool) (*Objects, error) {
	o := &Objects{}
	lines := json.NewDecoder(bytes.NewReader(policy))
	for {
		var line json.RawMessage
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return o, nil
		}
		if err == nil {
			err = o.add(line, on)
		}
		if err != nil {
			return nil, fmt.Errorf("read the bootstrap policy: %w", err)
		}
	}
}

func (o *Objects) add(line []byte, on func(gate string) bool) error {
	var is struct {
		metav1.TypeMeta
		Gate  string
		Rules []struct{ Gate string }
	}
	if err := json.Unmarshal(line, &is); err != nil {
		return err
	}
	if !there(is.Gate, on) {
		return nil
	}
	switch is.Kind {
	case "ClusterRole":
		role := &rbacv1.ClusterRole{}
		if err := appendTo(&o.ClusterRoles, role, line); err != nil {
			return err
		}
		kept := role.Rules[:0]
		for i, rule := range is.Rules {
			if there(rule.Gate, on) {
				kept = append(kept, role.Rules[i])
			}
		}
		role.Rules = kept
		return nil
	case "ClusterRoleBinding":
		return appendTo(&o.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{}, line)
	case "Role":
		return appendTo(&o.Roles, &rbacv1.Role{}, line)
	case "RoleBinding":
		return appendTo(&o.RoleBindings, &rbacv1.RoleBinding{}, line)
	}
	return fmt.Errorf("unknown kind %q", is.Kind)
}

// there says whether something with these gates is there.
func there(gates string, on func(gate string) bool) bool {
	for gate := range strings.SplitSeq(gates, ",") {
		name, off := strings.CutPrefix(gate, "!")
		if gate != "" && on(name) == off {
			return false
		}
	}
	return true
}

func appendTo[T interface {
	metav1.Object
	runtime.Object
}](list *[]T, obj T, line []byte) error {
	if err := json.Unmarshal(line, obj); err != nil {
		return err
	}
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["kubernetes.io/bootstrapping"] = "rbac-defaults"
	obj.SetLabels(labels)
	obj.SetAnnotations(map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"})
	kind := obj.GetObjectKind()
	kind.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind.GroupVersionKind().Kind))
	*list = append(*list, obj)
	return nil
}
