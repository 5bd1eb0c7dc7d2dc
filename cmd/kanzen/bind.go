package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// apiTimeout bounds a request to the server.
const apiTimeout = 10 * time.Second

// grant gives the user the role of --bind through the API.
func (o *kubeconfigOptions) grant(cmd *cobra.Command, adminPath string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), apiTimeout)
	defer cancel()
	api, err := newAPI(adminPath)
	if err != nil {
		return err
	}
	const group = "/apis/" + rbacv1.GroupName + "/v1"
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: o.bind}
	path := group + "/clusterrolebindings"
	if o.namespace != "" {
		path = group + "/namespaces/" + url.PathEscape(o.namespace) + "/rolebindings"
		code, err := api.do(ctx, http.MethodGet, group+"/namespaces/"+url.PathEscape(o.namespace)+"/roles/"+url.PathEscape(o.bind), nil)
		if err == nil {
			role.Kind = "Role"
		} else if code != http.StatusNotFound {
			return err
		}
		if _, err := api.do(ctx, http.MethodGet, "/api/v1/namespaces/"+url.PathEscape(o.namespace), nil); err != nil {
			return fmt.Errorf("--namespace: %w", err)
		}
	}
	if role.Kind == "ClusterRole" {
		if _, err := api.do(ctx, http.MethodGet, group+"/clusterroles/"+url.PathEscape(o.bind), nil); err != nil {
			return fmt.Errorf("--bind: %w", err)
		}
	}
	meta := metav1.ObjectMeta{Name: "kanzen:" + o.user + ":" + o.bind, Namespace: o.namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: o.user}}
	version := rbacv1.SchemeGroupVersion.String()
	var binding any = &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: meta, Subjects: subjects, RoleRef: role}
	if o.namespace != "" {
		binding = &rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"}, ObjectMeta: meta, Subjects: subjects, RoleRef: role}
	}
	code, err := api.do(ctx, http.MethodPost, path, binding)
	if code == http.StatusConflict {
		return nil // it has the role already
	}
	if err != nil {
		return fmt.Errorf("--bind: %w", err)
	}
	return nil
}

// api sends requests to a running server.
type api struct {
	client *http.Client
	server string
}

func newAPI(path string) (*api, error) {
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, oneLine(err))
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, oneLine(err))
	}
	return &api{client, c.Host}, nil
}

// do sends a request, and returns the code and what the server says against it.
func (a *api) do(ctx context.Context, method, path string, body any) (code int, err error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.server+path, sent)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return 0, fmt.Errorf("the server at %s does not answer (%w); start it with 'kanzen serve'", a.server, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusMultipleChoices {
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, nil
	}
	var status metav1.Status
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err := json.Unmarshal(b, &status); err != nil || status.Message == "" {
		status.Message = resp.Status
	}
	return resp.StatusCode, errors.New(status.Message)
}
