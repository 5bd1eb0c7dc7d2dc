package debug

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Zpages serves /statusz and /flagz: the server's version and flags, as text, or structured if the client requests a
// version of the format.
type Zpages struct {
	Started time.Time
	Clock   clock.PassiveClock
	Flags   map[string]string // given or default
	// Statusz and Flagz say which of the two are served.
	Statusz, Flagz bool
	// WriteError writes an error response.
	WriteError func(w http.ResponseWriter, r *http.Request, err error)
}

const zpageWarning = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only."

// statusz is the structured form of /statusz.
type statusz struct {
	metav1.TypeMeta  `json:",inline"`
	Metadata         map[string]string `json:"metadata"`
	StartTime        metav1.Time       `json:"startTime"`
	UptimeSeconds    int64             `json:"uptimeSeconds"`
	GoVersion        string            `json:"goVersion"`
	BinaryVersion    string            `json:"binaryVersion"`
	EmulationVersion string            `json:"emulationVersion"`
	Paths            []string          `json:"paths"`
}

// flagz is the structured form of /flagz.
type flagz struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        map[string]string `json:"metadata"`
	Flags           map[string]string `json:"flags"`
}

// Serve serves the two paths; it returns false for any other path.
func (z *Zpages) Serve(w http.ResponseWriter, r *http.Request) bool {
	named := map[string]string{"name": "apiserver"}
	var text func() string
	var object func(t metav1.TypeMeta) any
	kind := ""
	switch path := r.URL.Path; {
	case path == "/statusz" && z.Statusz:
		info := version.Info()
		up := z.Clock.Since(z.Started)
		paths := []string{"/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"}
		kind = "Statusz"
		object = func(t metav1.TypeMeta) any {
			return statusz{t, named, metav1.NewTime(z.Started), int64(up.Seconds()), runtime.Version(), version.Kubernetes, info.EmulationMajor + "." + info.EmulationMinor, paths}
		}
		text = func() string {
			s := int(up.Seconds())
			return fmt.Sprintf("\napiserver statusz\n%s\n\nStarted  %s\nUp  %d hr %02d min %02d sec\nGo version  %s\nBinary version  %s\nEmulation version  %s\nPaths  %s\n",
				zpageWarning, z.Started.UTC().Format(time.UnixDate), s/3600, s/60%60, s%60, runtime.Version(), version.Kubernetes,
				info.EmulationMajor+"."+info.EmulationMinor, strings.Join(paths, " "))
		}
	case path == "/flagz" && z.Flagz:
		kind = "Flagz"
		object = func(t metav1.TypeMeta) any { return flagz{t, named, z.Flags} }
		text = func() string {
			var b strings.Builder
			fmt.Fprintf(&b, "\napiserver flagz\n%s\n", zpageWarning)
			for _, name := range slices.Sorted(maps.Keys(z.Flags)) {
				fmt.Fprintf(&b, "%s: %s\n", name, z.Flags[name])
			}
			return b.String()
		}
	default:
		return false
	}
	z.answer(w, r, kind, text, object)
	return true
}

// answer writes a page in the requested form. Clients of the structured form must specify a version, because there is
// no stable one.
func (z *Zpages) answer(w http.ResponseWriter, r *http.Request, kind string, text func() string, object func(metav1.TypeMeta) any) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		accept = "text/plain"
	}
	names := []string{"application/json", "application/yaml", "text/plain"}
	if request.HasCBOR(r.Context()) {
		names = append(names, kruntime.ContentTypeCBOR)
	}
	for _, a := range goautoneg.ParseAccept(accept) {
		media := a.Type + "/" + a.SubType
		v := a.Params["v"]
		switch {
		case media == "text/plain" || media == "*/*" || media == "text/*":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(text()))
			return
		case !slices.Contains(names, media):
			continue
		case a.Params["g"] != "config.k8s.io" || a.Params["as"] != kind || v != "v1alpha1" && v != "v1beta1":
			continue
		}
		if v == "v1alpha1" {
			request.AddWarning(r.Context(), fmt.Sprintf("This version of the %s endpoint is deprecated. Please use a newer version.", strings.ToLower(kind)))
		}
		body, err := json.MarshalIndent(object(metav1.TypeMeta{Kind: kind, APIVersion: "config.k8s.io/" + v}), "", "  ")
		switch {
		case err == nil && media == "application/yaml":
			body, err = yaml.JSONToYAML(body)
		case err == nil && media == kruntime.ContentTypeCBOR:
			body, err = cbor.FromJSON(body)
		}
		if err != nil {
			z.WriteError(w, r, err)
			return
		}
		w.Header().Set("Content-Type", media+";g=config.k8s.io;v="+v+";as="+kind)
		_, _ = w.Write(body)
		return
	}
	z.WriteError(w, r, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join(names, ", ")}})
}
