//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// volumes writes what the volumes of a pod hold into folders, as a kubelet does.
type volumes struct {
	client kubernetes.Interface
	pod    *corev1.Pod
	folder string
	tokens map[string][]byte // by audience; they are valid for longer than a run takes
}

// sync writes what is new. It is an error if something is not there yet that has to be.
func (v *volumes) sync(ctx context.Context) error {
	if err := os.MkdirAll(v.folder, 0o755); err != nil {
		return err
	}
	for _, volume := range v.pod.Spec.Volumes {
		files, err := v.files(ctx, volume.VolumeSource)
		if err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		dir := filepath.Join(v.folder, volume.Name)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		for name, content := range files {
			if err := replace(filepath.Join(dir, name), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace writes a file if it differs, in a way that nobody reads half of it.
func replace(path string, content []byte) error {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// files are those of a volume. One that the program writes to has none.
func (v *volumes) files(ctx context.Context, s corev1.VolumeSource) (map[string][]byte, error) {
	switch {
	case s.EmptyDir != nil:
		return nil, nil
	case s.Secret != nil:
		return v.secret(ctx, s.Secret.SecretName, s.Secret.Items, s.Secret.Optional)
	case s.ConfigMap != nil:
		return v.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
	case s.DownwardAPI != nil:
		return v.fields(s.DownwardAPI.Items)
	case s.Projected != nil:
		all := map[string][]byte{}
		for _, source := range s.Projected.Sources {
			files, err := v.projected(ctx, source)
			if err != nil {
				return nil, err
			}
			for name, content := range files {
				all[name] = content
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("there is no such volume on these nodes: %v", s)
}

func (v *volumes) projected(ctx context.Context, s corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case s.Secret != nil:
		return v.secret(ctx, s.Secret.Name, s.Secret.Items, s.Secret.Optional)
	case s.ConfigMap != nil:
		return v.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
	case s.DownwardAPI != nil:
		return v.fields(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		token, err := v.token(ctx, s.ServiceAccountToken)
		return map[string][]byte{s.ServiceAccountToken.Path: token}, err
	}
	return nil, fmt.Errorf("there is no such projection on these nodes: %v", s)
}

// token is one of the pod's service account, bound to the pod.
func (v *volumes) token(ctx context.Context, p *corev1.ServiceAccountTokenProjection) ([]byte, error) {
	if token, have := v.tokens[p.Audience]; have {
		return token, nil
	}
	seconds := int64(24 * 60 * 60)
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds, BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: v.pod.Name, UID: v.pod.UID},
	}}
	if p.Audience != "" {
		ask.Spec.Audiences = []string{p.Audience}
	}
	got, err := v.client.CoreV1().ServiceAccounts(v.pod.Namespace).CreateToken(ctx, v.pod.Spec.ServiceAccountName, ask, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	v.tokens[p.Audience] = []byte(got.Status.Token)
	return v.tokens[p.Audience], nil
}

func (v *volumes) secret(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	got, err := v.client.CoreV1().Secrets(v.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, required(err, optional)
	}
	return chosen(got.Data, items, optional)
}

func (v *volumes) configMap(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	got, err := v.client.CoreV1().ConfigMaps(v.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, required(err, optional)
	}
	data := map[string][]byte{}
	for key, value := range got.Data {
		data[key] = []byte(value)
	}
	for key, value := range got.BinaryData {
		data[key] = value
	}
	return chosen(data, items, optional)
}

// required is the error, unless it says that something is not there that may be missing.
func required(err error, optional *bool) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// chosen are the files of some keys, or of all if none are named.
func chosen(data map[string][]byte, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	if len(items) == 0 {
		return data, nil
	}
	files := map[string][]byte{}
	for _, item := range items {
		value, has := data[item.Key]
		if !has && (optional == nil || !*optional) {
			return nil, fmt.Errorf("it has no key %q", item.Key)
		}
		if has {
			files[item.Path] = value
		}
	}
	return files, nil
}

func (v *volumes) fields(items []corev1.DownwardAPIVolumeFile) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, item := range items {
		if item.FieldRef == nil {
			files[item.Path] = []byte(amount(item.ResourceFieldRef))
			continue
		}
		value, err := field(v.pod, item.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		files[item.Path] = []byte(value)
	}
	return files, nil
}

// amount is the amount of a resource that a container may use: these nodes do not limit it.
func amount(r *corev1.ResourceFieldSelector) string {
	if strings.HasSuffix(r.Resource, ".cpu") {
		return "2"
	}
	return "1073741824"
}

var ofMap = regexp.MustCompile(`^metadata\.(labels|annotations)(\['(.*)'\])?$`)

// field is a field of a pod, as variables and volumes name it.
func field(pod *corev1.Pod, path string) (string, error) {
	if m := ofMap.FindStringSubmatch(path); m != nil {
		values := pod.Labels
		if m[1] == "annotations" {
			values = pod.Annotations
		}
		if m[2] != "" {
			return values[m[3]], nil
		}
		var b strings.Builder
		for key, value := range values {
			fmt.Fprintf(&b, "%s=%q\n", key, value)
		}
		return b.String(), nil
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return pod.Status.PodIP, nil
	case "status.hostIP", "status.hostIPs":
		return pod.Status.HostIP, nil
	}
	return "", fmt.Errorf("there is no field %s", path)
}

// environment are the variables of a container. Services are found by name only, except the server's.
func (v *volumes) environment(ctx context.Context, c *corev1.Container) ([]string, error) {
	values := map[string]string{"HOME": "/root", "HOSTNAME": v.pod.Name, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		"KUBERNETES_SERVICE_HOST": serverHost, "KUBERNETES_SERVICE_PORT": serverPort}
	for _, from := range c.EnvFrom {
		var data map[string][]byte
		var err error
		if from.ConfigMapRef != nil {
			data, err = v.configMap(ctx, from.ConfigMapRef.Name, nil, from.ConfigMapRef.Optional)
		} else {
			data, err = v.secret(ctx, from.SecretRef.Name, nil, from.SecretRef.Optional)
		}
		if err != nil {
			return nil, err
		}
		for key, value := range data {
			values[from.Prefix+key] = string(value)
		}
	}
	for _, e := range c.Env {
		value, set, err := v.variable(ctx, e, values)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		if set {
			values[e.Name] = value
		}
	}
	var all []string
	for name, value := range values {
		all = append(all, name+"="+value)
	}
	return all, nil
}

// variable is the value of a variable. One from a key that may be missing is not set if it is.
func (v *volumes) variable(ctx context.Context, e corev1.EnvVar, values map[string]string) (value string, set bool, err error) {
	from := e.ValueFrom
	if from == nil {
		return expand(e.Value, values), true, nil
	}
	var data map[string][]byte
	switch {
	case from.FieldRef != nil:
		value, err = field(v.pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		return amount(from.ResourceFieldRef), true, nil
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		data, err = v.configMap(ctx, r.Name, []corev1.KeyToPath{{Key: r.Key, Path: e.Name}}, r.Optional)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		data, err = v.secret(ctx, r.Name, []corev1.KeyToPath{{Key: r.Key, Path: e.Name}}, r.Optional)
	}
	b, set := data[e.Name]
	return string(b), set, err
}

var reference = regexp.MustCompile(`\$\$|\$\([-._a-zA-Z0-9]+\)`)

// expand puts the values of variables into $(NAME). One that there is not stays as it is, and $$ is a dollar.
func expand(text string, values map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(r string) string {
		if r == "$$" {
			return "$"
		}
		if value, has := values[r[2:len(r)-1]]; has {
			return value
		}
		return r
	})
}

// commandLine is that of a container whose image has an entry point.
func commandLine(c *corev1.Container, entry, env []string) []string {
	values := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	line := c.Command
	if len(line) == 0 {
		line = entry
	}
	var all []string
	for _, word := range append(append([]string{}, line...), c.Args...) {
		all = append(all, expand(word, values))
	}
	return all
}

// mountsOf are the mounts of a container.
func mountsOf(c *corev1.Container) (all []mount) {
	for _, m := range c.VolumeMounts {
		all = append(all, mount{filepath.Join(m.Name, m.SubPath), m.MountPath})
	}
	return all
}
