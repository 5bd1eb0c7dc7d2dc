package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// asking says which server a command asks, and how it answers.
type asking struct {
	dir, kubeconfig, context, namespace, output string // context "": the current one
	agent                                       string // what the command calls itself; "": like all others
}

func (a *asking) add(fs *pflag.FlagSet, namespaced bool) {
	a.addServer(fs)
	fs.StringVarP(&a.output, "output", "o", "", "Output format: json, or empty for text.")
	if namespaced {
		fs.StringVarP(&a.namespace, "namespace", "n", "", "Namespace of the object. (default the namespace of the kubeconfig's context)")
	}
}

// addServer adds the flags that say which server is asked.
func (a *asking) addServer(fs *pflag.FlagSet) {
	a.dir = config.Standalone().DataDir
	fs.StringVar(&a.kubeconfig, "kubeconfig", "", "Kubeconfig of the server. (default $KUBECONFIG, or the one in --data-dir)")
	fs.StringVar(&a.dir, "data-dir", a.dir, "Data directory of the server, for its administrator's kubeconfig.")
}

// kubeconfigRules say which kubeconfig a command reads.
func kubeconfigRules(kubeconfig, dir string) (*clientcmd.ClientConfigLoadingRules, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if own := filepath.Join(dir, "pki", "admin.kubeconfig"); kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if _, err := os.Stat(own); err != nil {
			return nil, fmt.Errorf("name a server with --kubeconfig or $KUBECONFIG; no server has been started on %s", dir)
		}
		rules.ExplicitPath = own
	}
	return rules, nil
}

// serverConfig returns the configuration by which a command reaches the server of a context ("": the current one), and the namespace of that.
func serverConfig(kubeconfig, dir, context string) (*rest.Config, string, error) {
	rules, err := kubeconfigRules(kubeconfig, dir)
	if err != nil {
		return nil, "", err
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	c, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", namesKubeconfig(err, kubeconfig, rules.GetLoadingPrecedence()...)
	}
	c.UserAgent = "kanzen/" + version.Kanzen
	namespace, _, err := loaded.Namespace()
	return c, namespace, err
}

// contextName is what the kubeconfig calls the place that is asked; "": it has no name for it.
func (a *asking) contextName() string {
	rules, err := kubeconfigRules(a.kubeconfig, a.dir)
	if err != nil {
		return ""
	}
	c, err := rules.Load()
	if err != nil {
		return ""
	}
	return cmp.Or(a.context, c.CurrentContext)
}

// namesKubeconfig says which file is meant, where an error speaks of none; explicit is what --kubeconfig names.
func namesKubeconfig(err error, explicit string, paths ...string) error {
	files := strings.Join(paths, ", ")
	switch {
	case clientcmd.IsEmptyConfig(err):
		err = fmt.Errorf("%s names no server", files)
	case !slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(err.Error(), p) }):
		err = fmt.Errorf("%s: %w", files, err)
	}
	if explicit != "" {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	return err
}

// asker asks a server.
type asker struct {
	http   *http.Client
	url    string
	config *rest.Config
}

// open connects to the server.
func (a *asking) open() (*asker, error) {
	if a.output != "" && a.output != "json" {
		return nil, fmt.Errorf("--output: %q is not json", a.output)
	}
	c, namespace, err := serverConfig(a.kubeconfig, a.dir, a.context)
	if err != nil {
		return nil, err
	}
	a.namespace, c.UserAgent = cmp.Or(a.namespace, namespace), cmp.Or(a.agent, c.UserAgent)
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	return &asker{h, strings.TrimRight(c.Host, "/"), c}, nil
}

// below says of which kind a server is that another one has below itself; "" if it is none.
func (a *asker) below() string {
	switch {
	case strings.Contains(a.url, "/forks/"):
		return "fork"
	case strings.Contains(a.url, "/planes/"):
		return "plane"
	}
	return ""
}

// noRecorder says why there is no flight recorder where one was looked for.
func (a *asker) noRecorder() string {
	if kind := a.below(); kind != "" {
		root, _, _ := strings.Cut(a.url, "/"+kind+"s/")
		return fmt.Sprintf("a %s has no flight recorder of its own (the server at %s has one)", kind, root)
	}
	return "the server has no flight recorder (--flight-recorder-memory)"
}

// maxAnswer bounds an answer.
const maxAnswer = 256 << 20

// ask sends a request and decodes the answer; body nil: there is none.
func (a *asker) ask(ctx context.Context, method, path, accept string, body, into any) error {
	answer, err := a.send(ctx, method, path, accept, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	return json.NewDecoder(io.LimitReader(answer, maxAnswer)).Decode(into)
}

// send sends a request and returns the body of the answer.
func (a *asker) send(ctx context.Context, method, path, accept string, body any) (io.ReadCloser, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", cmp.Or(accept, "application/json"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, &refusedError{resp.StatusCode, refusal(resp)}
	}
	return resp.Body, nil
}

func (a *asker) get(ctx context.Context, path string, into any) error {
	return a.ask(ctx, http.MethodGet, path, "", nil, into)
}

// refusedError is an answer that is an error, with its code.
type refusedError struct {
	code int
	error
}

func (e *refusedError) Unwrap() error { return e.error }

// served is a resource that the server has.
type served struct {
	group, version string
	// others are the further versions that have it.
	others []string
	apidiscoveryv2.APIResourceDiscovery
}

// MarshalJSON writes what is needed to find it by a name.
func (s served) MarshalJSON() ([]byte, error) {
	return json.Marshal(servedName{s.group, s.Resource, s.SingularResource, s.ResponseKind, s.ShortNames, s.Scope})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *served) UnmarshalJSON(text []byte) error {
	var n servedName
	err := json.Unmarshal(text, &n)
	s.group, s.Resource, s.SingularResource, s.ResponseKind, s.ShortNames, s.Scope = n.Group, n.Resource, n.Singular, n.Kind, n.ShortNames, n.Scope
	return err
}

// servedName is how a resource can be called.
type servedName struct {
	Group      string                       `json:"group,omitempty"`
	Resource   string                       `json:"resource"`
	Singular   string                       `json:"singular,omitempty"`
	Kind       *metav1.GroupVersionKind     `json:"kind,omitempty"`
	ShortNames []string                     `json:"shortNames,omitempty"`
	Scope      apidiscoveryv2.ResourceScope `json:"scope"`
}

// in returns the resource in another of its versions.
func (s *served) in(version string) *served {
	other := *s
	other.version = version
	return &other
}

// readable asks for a path of a resource in each of its versions until one can be read: a conversion webhook that fails leaves
// the stored version readable. It returns the first error if none can.
func (a *asker) readable(ctx context.Context, s *served, namespace, name, accept string, into any) error {
	err := a.ask(ctx, http.MethodGet, s.path(namespace, name), accept, nil, into)
	var refused *refusedError
	if !errors.As(err, &refused) || refused.code != http.StatusInternalServerError {
		return err
	}
	for _, v := range s.others {
		if a.ask(ctx, http.MethodGet, s.in(v).path(namespace, name), accept, nil, into) == nil {
			return nil
		}
	}
	return err
}

// path returns the path of the resource, in a namespace if it is in one, or of an object.
func (s *served) path(namespace, name string) string {
	p := "/apis/" + s.group + "/" + s.version
	if s.group == "" {
		p = "/api/" + s.version
	}
	if s.Scope == apidiscoveryv2.ScopeNamespace && namespace != "" {
		p += "/namespaces/" + url.PathEscape(namespace)
	}
	p += "/" + s.Resource
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	return p
}

// resources returns what the server has, each in its preferred version.
func (a *asker) resources(ctx context.Context) ([]served, error) {
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	var out []served
	for _, path := range []string{"/api", "/apis"} {
		var groups apidiscoveryv2.APIGroupDiscoveryList
		if err := a.ask(ctx, http.MethodGet, path, accept, nil, &groups); err != nil {
			return nil, err
		}
		for _, g := range groups.Items {
			seen := map[string]int{}
			for _, v := range g.Versions {
				for _, r := range v.Resources {
					if n, ok := seen[r.Resource]; ok {
						out[n].others = append(out[n].others, v.Version)
						continue
					}
					seen[r.Resource] = len(out)
					out = append(out, served{group: g.Name, version: v.Version, APIResourceDiscovery: r})
				}
			}
		}
	}
	return out, nil
}

// find returns the resource that people call by a name: plural, singular, short name or kind, with or without its group.
func find(all []served, name string) (*served, error) {
	name, group, grouped := strings.Cut(strings.ToLower(name), ".")
	for n := range all {
		s := &all[n]
		kind := ""
		if s.ResponseKind != nil {
			kind = strings.ToLower(s.ResponseKind.Kind)
		}
		if (name == s.Resource || name == s.SingularResource || name == kind || slices.Contains(s.ShortNames, name)) && (!grouped || group == s.group) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the server has no resource %q", name)
}
