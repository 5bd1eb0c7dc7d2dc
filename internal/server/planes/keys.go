package planes

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file has the two secrets of a plane: its keys, and its administrator's kubeconfig. They belong to the Plane.

const secretsPath = "/api/v1/namespaces/" + Namespace + "/secrets"

func keysSecret(name string) string       { return name + "-keys" }
func kubeconfigSecret(name string) string { return name + "-kubeconfig" }

// KubeconfigKey is the key of the kubeconfig in its secret, as Cluster API has it.
const KubeconfigKey = "value"

// The types of the secrets.
const (
	keysType       corev1.SecretType = Group + "/keys"
	kubeconfigType corev1.SecretType = Group + "/kubeconfig"
)

// keysOf reads the keys of a plane.
func (f *Fleet) keysOf(ctx context.Context, h *hosted) (pki.Shared, error) {
	var s corev1.Secret
	if err := f.root.Do(ctx, http.MethodGet, secretsPath+"/"+keysSecret(h.name), "", nil, &s); err != nil {
		return nil, err
	}
	if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != h.uid {
		return nil, fmt.Errorf("the secret %s/%s is not that of this plane", Namespace, s.Name)
	}
	return s.Data, nil
}

// makeKeys makes the keys of a plane.
func (f *Fleet) makeKeys(ctx context.Context, p *Plane) (pki.Shared, error) {
	set, err := pki.NewShared(p.Name, f.on.Clock.Now())
	if err != nil {
		return nil, err
	}
	return set, f.root.Do(ctx, http.MethodPost, secretsPath, "application/json", f.secret(p, keysSecret(p.Name), keysType, set), nil)
}

// writeKubeconfig writes the kubeconfig of a plane's administrator.
func (f *Fleet) writeKubeconfig(ctx context.Context, p *Plane, set pki.Shared) error {
	authority, err := pki.ParseAuthority(set.ClientAuthority())
	if err != nil {
		return err
	}
	admin, err := authority.NewPair(pki.Subject{Name: "kubernetes-admin", Groups: []string{"system:masters"}}, f.on.Clock.Now())
	if err != nil {
		return err
	}
	data, err := pki.Kubeconfig{Cluster: p.Name, User: "kubernetes-admin", Server: f.address(p.Name), CA: f.ca, ClientCert: admin.Cert, ClientKey: admin.Key}.YAML()
	if err != nil {
		return err
	}
	s := f.secret(p, kubeconfigSecret(p.Name), kubeconfigType, map[string][]byte{KubeconfigKey: data})
	err = f.root.Do(ctx, http.MethodPost, secretsPath, "application/json", s, nil)
	if apierrors.IsAlreadyExists(err) {
		err = f.root.Do(ctx, http.MethodPut, secretsPath+"/"+s.Name, "application/json", s, nil)
	}
	return err
}

// renew writes the kubeconfig anew if its certificate ends soon. It is called when a plane wakes or goes to sleep.
func (f *Fleet) renew(ctx context.Context, h *hosted, p *Plane) error {
	var s corev1.Secret
	err := f.root.Do(ctx, http.MethodGet, secretsPath+"/"+kubeconfigSecret(p.Name), "", nil, &s)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	var c clientcmdv1.Config
	if err == nil && yaml.Unmarshal(s.Data[KubeconfigKey], &c) == nil && len(c.AuthInfos) == 1 &&
		!(pki.Pair{Cert: c.AuthInfos[0].AuthInfo.ClientCertificateData}).Near(f.on.Clock.Now()) {
		return nil
	}
	set, err := f.keysOf(ctx, h)
	if err != nil {
		return err
	}
	return f.writeKubeconfig(ctx, p, set)
}

// removeSecret deletes a secret of a plane. Another plane may have come to have its name, and that of its secrets.
func (f *Fleet) removeSecret(ctx context.Context, h *hosted, name string) error {
	var s corev1.Secret
	err := f.root.Do(ctx, http.MethodGet, secretsPath+"/"+name, "", nil, &s)
	if err == nil && len(s.OwnerReferences) == 1 && s.OwnerReferences[0].UID == h.uid {
		err = f.root.Do(ctx, http.MethodDelete, secretsPath+"/"+name, "application/json", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}}, nil)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// secret is one that belongs to a Plane.
func (f *Fleet) secret(p *Plane, name string, kind corev1.SecretType, data map[string][]byte) *corev1.Secret {
	yes := true
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: map[string]string{Group + "/plane": p.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: Group + "/" + Version, Kind: "Plane", Name: p.Name, UID: p.UID, Controller: &yes}}},
		Type: kind, Data: data,
	}
}
