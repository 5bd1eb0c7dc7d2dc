// Package manifest reads webhooks and policies from the manifests in a directory. They belong to who runs the server: they are in
// force from its start on, apply also to writes of what configures admission, and nobody can change them through the API, where names of
// their kind are refused.
//
// A directory is for one plugin. Its files are read again when they change; if they are wrong then, what was read before
// stays in force.
package manifest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/reload"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Kind is a kind of objects that a directory may have.
type Kind struct {
	Name string
	// Default fills in what a manifest leaves out (nil: nothing), and Validate reports what is wrong, as for objects of the API.
	Default  func(obj admission.Object)
	Validate func(ctx context.Context, obj admission.Object) field.ErrorList
}

// Config says what a Directory is. All fields are required.
type Config struct {
	// Plugin is the name of the admission plugin, and Kinds those of its configuration.
	Plugin string
	Kinds  []Kind
	Path   string
	// Registry gets the metrics. Server is this server's identity, of which they have the hash.
	Registry prometheus.Registerer
	Server   string
	Clock    clock.WithTicker
	Log      *slog.Logger
}

// Directory has the objects of the manifests in a directory.
type Directory struct {
	Config
	decoder runtime.Decoder
	source  reload.File
	files   []file // as they were last read
	now     atomic.Pointer[loaded]
}

// file is a file of manifests.
type file struct {
	path string
	data []byte
}

// loaded is what is in force.
type loaded struct {
	number  int64                         // of times that something was loaded
	objects map[string][]admission.Object // by kind, in the order of their names
}

// Load reads a directory.
func Load(ctx context.Context, c Config) (*Directory, error) {
	d := &Directory{Config: c, decoder: newDecoder()}
	// There is one set of metrics for all plugins.
	metrics := reload.NewMetrics(prometheus.WrapRegistererWith(prometheus.Labels{"plugin": c.Plugin}, c.Registry), "manifest_admission", c.Server)
	d.source = reload.File{Path: c.Path, Content: d.read, Take: d.take, Metrics: metrics, Clock: c.Clock, Log: c.Log}
	data, err := d.source.Read()
	if err != nil {
		return nil, err
	}
	if err := d.take(ctx, data); err != nil {
		return nil, err
	}
	metrics.Loaded(c.Clock.Now())
	return d, nil
}

// Run takes up changes of the files until ctx ends.
func (d *Directory) Run(ctx context.Context) { d.source.Run(ctx) }

// View has the objects of a kind.
func (d *Directory) View(kind string) admission.View { return view{d, kind} }

type view struct {
	*Directory
	kind string
}

// Changed is part of admission.View.
func (v view) Changed(context.Context) (int64, error) { return v.now.Load().number, nil }

// Objects is part of admission.View.
func (v view) Objects(context.Context) ([]admission.Object, error) {
	return v.now.Load().objects[v.kind], nil
}

// read reads the files, in the order of their names. It returns what changes when they do.
func (d *Directory) read() ([]byte, error) {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, fmt.Errorf("failed to read manifest directory %q: %w", d.Path, err)
	}
	d.files = nil
	var all bytes.Buffer
	for _, e := range entries {
		if e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(e.Name()))) {
			continue
		}
		path := filepath.Join(d.Path, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("failed to read file %q: %w", path, err)
		}
		if len(data) == 0 {
			continue
		}
		d.files = append(d.files, file{path, data})
		all.Write(data)
		all.WriteByte(0) // so that nothing moves from one file to the next unseen; kube-apiserver's hash has it, too
	}
	return all.Bytes(), nil
}

// CheckPath checks the path of a directory in the configuration of a plugin. on says whether the feature is.
func CheckPath(path string, on bool) error {
	at := field.NewPath("staticManifestsDir")
	if path == "" {
		return nil
	}
	if !on {
		return field.Forbidden(at, "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled")
	}
	if !filepath.IsAbs(path) {
		return field.Invalid(at, path, "must be an absolute file path")
	}
	info, err := os.Stat(path)
	if err != nil {
		return field.Invalid(at, path, fmt.Sprintf("unable to read: %v", err))
	}
	if !info.IsDir() {
		return field.Invalid(at, path, "must be a directory")
	}
	return nil
}
