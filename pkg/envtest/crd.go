package envtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// CRDInstallOptions say which CRDs are installed, and how.
type CRDInstallOptions struct {
	// Scheme tells which kinds are converted by a webhook; nil: client-go's scheme.Scheme.
	Scheme *runtime.Scheme
	// Paths are files, or directories with CRDs. Other objects in them are left out.
	Paths []string
	CRDs  []*apiextensionsv1.CustomResourceDefinition
	// ErrorIfPathMissing makes a missing path an error.
	ErrorIfPathMissing bool
	// MaxTime is how long to wait for the CRDs, PollInterval how often to look; zero: 10 s and 5 ms.
	MaxTime, PollInterval time.Duration
	// CleanUpAfterUse removes the CRDs when the environment stops.
	CleanUpAfterUse bool
	// WebhookOptions have the host, port and certificates of conversion webhooks.
	WebhookOptions WebhookInstallOptions
}

const (
	defaultPollInterval = 5 * time.Millisecond
	defaultMaxWait      = 10 * time.Second
)

func waiting(interval, most time.Duration) (time.Duration, time.Duration) {
	if interval == 0 {
		interval = defaultPollInterval
	}
	if most == 0 {
		most = defaultMaxWait
	}
	return interval, most
}

// InstallCRDs creates or updates CRDs and waits until they are served.
func InstallCRDs(config *rest.Config, options CRDInstallOptions) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if options.Scheme == nil {
		options.Scheme = scheme.Scheme
	}
	if err := ReadCRDFiles(&options); err != nil {
		return nil, fmt.Errorf("read CRDs: %w", err)
	}
	if err := convertByWebhook(options.CRDs, options.Scheme, options.WebhookOptions); err != nil {
		return nil, err
	}
	if err := CreateCRDs(config, options.CRDs); err != nil {
		return options.CRDs, err
	}
	return options.CRDs, WaitForCRDs(config, options.CRDs, options)
}

// ReadCRDFiles adds the CRDs in options.Paths to options.CRDs. Of several with one name the last counts.
func ReadCRDFiles(options *CRDInstallOptions) error {
	objects, err := readPaths(options.Paths, options.ErrorIfPathMissing)
	if err != nil {
		return err
	}
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, u := range objects {
		if u.GetKind() != "CustomResourceDefinition" {
			continue
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
			return fmt.Errorf("CRD %s: %w", u.GetName(), err)
		}
		found = mergeCRDs(found, []*apiextensionsv1.CustomResourceDefinition{d})
	}
	options.CRDs = append(options.CRDs, found...)
	return nil
}

// readPaths reads the objects of files and directories. A missing path is left out unless it is an error.
func readPaths(paths []string, missing bool) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, p := range paths {
		if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) && !missing {
			continue
		}
		files := []string{p}
		if entries, err := os.ReadDir(p); err == nil {
			files = nil
			for _, e := range entries {
				// A kustomization is no object, but it stands beside them.
				if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) && e.Name() != "kustomization.yaml" {
					files = append(files, filepath.Join(p, e.Name()))
				}
			}
		}
		objects, err := kanzentest.Path(files...).Read()
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	return out, nil
}

// CreateCRDs creates CRDs, or updates those that exist.
func CreateCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	for _, d := range crds {
		if err := ensure(config, crdResource, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), d); err != nil {
			return fmt.Errorf("CRD %s: %w", d.Name, err)
		}
	}
	return nil
}

var crdResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// WaitForCRDs waits until all served versions of CRDs are in discovery.
func WaitForCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition, options CRDInstallOptions) error {
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	interval, most := waiting(options.PollInterval, options.MaxTime)
	for _, d := range crds {
		for _, v := range d.Spec.Versions {
			if !v.Served {
				continue
			}
			gv := schema.GroupVersion{Group: d.Spec.Group, Version: v.Name}
			err := wait.PollUntilContextTimeout(background(), interval, most, true, func(context.Context) (bool, error) {
				list, err := c.ServerResourcesForGroupVersion(gv.String())
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				if err != nil {
					return false, err
				}
				return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == d.Spec.Names.Plural }), nil
			})
			if err != nil {
				return fmt.Errorf("CRD %s is not served in %s: %w", d.Name, gv, err)
			}
		}
	}
	return nil
}

// UninstallCRDs removes the CRDs of options.
func UninstallCRDs(config *rest.Config, options CRDInstallOptions) error {
	if err := ReadCRDFiles(&options); err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, d := range options.CRDs {
		if err := c.Resource(crdResource).Delete(background(), d.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("CRD %s: %w", d.Name, err)
		}
	}
	return nil
}

// object is an API object.
type object interface {
	metav1.Object
	runtime.Object
}

// ensure creates an object that is in no namespace, or updates it.
func ensure(config *rest.Config, gvr schema.GroupVersionResource, kind schema.GroupVersionKind, obj object) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(u.Object, "status")
	_, err = c.Resource(gvr).Create(background(), u, metav1.CreateOptions{})
	for apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		there, failed := c.Resource(gvr).Get(background(), u.GetName(), metav1.GetOptions{})
		if failed != nil {
			return failed
		}
		u.SetResourceVersion(there.GetResourceVersion())
		_, err = c.Resource(gvr).Update(background(), u, metav1.UpdateOptions{})
	}
	return err
}

// mergeCRDs adds CRDs; one with the name of an earlier one replaces it.
func mergeCRDs(all, more []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	for _, d := range more {
		if n := slices.IndexFunc(all, func(o *apiextensionsv1.CustomResourceDefinition) bool { return o.Name == d.Name }); n >= 0 {
			all[n] = d
		} else {
			all = append(all, d)
		}
	}
	return all
}

func mergePaths(all, more []string) []string {
	for _, p := range more {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// convertByWebhook has the kinds whose Go types convert to each other converted by the test's webhook server. Other
// kinds get no conversion webhook: nobody would serve it.
func convertByWebhook(crds []*apiextensionsv1.CustomResourceDefinition, s *runtime.Scheme, o WebhookInstallOptions) error {
	if len(o.LocalServingCAData) == 0 {
		return nil
	}
	hostPort, err := o.hostPort()
	if err != nil {
		return err
	}
	url := "https://" + hostPort + "/convert"
	for _, d := range crds {
		if d.Spec.PreserveUnknownFields {
			continue
		}
		if !o.IgnoreSchemeConvertible && !convertible(s, schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind}) {
			d.Spec.Conversion = nil
			continue
		}
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1", "v1beta1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: o.LocalServingCAData},
		}}
	}
	return nil
}

// convertible reports whether the Go types of a kind are one hub and spokes around it, by the methods that
// controller-runtime's package conversion asks of them.
func convertible(s *runtime.Scheme, gk schema.GroupKind) bool {
	hubs, spokes, others := 0, 0, 0
	for gvk, t := range s.AllKnownTypes() {
		if gvk.GroupKind() != gk || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		p := reflect.PointerTo(t)
		_, hub := p.MethodByName("Hub")
		_, to := p.MethodByName("ConvertTo")
		_, from := p.MethodByName("ConvertFrom")
		switch {
		case hub:
			hubs++
		case to && from:
			spokes++
		default:
			others++
		}
	}
	return hubs == 1 && spokes > 0 && others == 0
}
