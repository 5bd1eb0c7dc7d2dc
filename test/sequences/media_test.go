package sequences

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	cborType     = "application/cbor"
	protobufType = runtime.ContentTypeProtobuf
)

// types are those of all built-in kinds, and of what answers are made into.
var types = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

var typed = serializer.NewCodecFactory(types).UniversalDeserializer()

// encoded is a body of JSON as its type says, and that type. What protobuf cannot say, which is what fits no Go type, stays JSON.
func encoded(st step, body string) (data []byte, sent string, err error) {
	switch {
	case body == "":
		return nil, st.Sent, nil
	case strings.HasPrefix(st.Sent, protobufType):
		o, _, err := typed.Decode([]byte(body), nil, nil)
		if err != nil {
			return []byte(body), "application/json", nil
		}
		var out bytes.Buffer
		err = protobuf.NewSerializer(types, types).Encode(o, &out)
		return out.Bytes(), st.Sent, err
	case strings.HasSuffix(st.Sent, "cbor"):
		v, err := exact([]byte(body))
		if err != nil {
			return nil, "", err
		}
		if st.Typed {
			if o, _, err := typed.Decode([]byte(body), nil, nil); err == nil {
				v = o
			}
		}
		data, err = direct.Marshal(v)
		return data, st.Sent, err
	}
	return []byte(body), st.Sent, nil
}

// exact reads JSON with integers that are no floats.
func exact(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return each(v, func(v any) any {
		number, ok := v.(json.Number)
		if !ok {
			return v
		}
		if n, err := number.Int64(); err == nil {
			return n
		}
		f, _ := number.Float64() // JSON has no other numbers
		return f
	}), err
}

// each changes all values of a document.
func each(v any, f func(any) any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = each(v[k], f)
		}
	case []any:
		for i := range v {
			v[i] = each(v[i], f)
		}
	}
	return f(v)
}

// parse reads an answer of any type as JSON.
func parse(kind string, data []byte) (any, error) {
	switch kind {
	case "application/yaml":
		j, err := yaml.YAMLToJSON(data)
		if err != nil {
			return nil, err
		}
		return decode(j)
	case cborType:
		return parseCBOR(data)
	case protobufType:
		o, _, err := typed.Decode(data, nil, nil)
		if err != nil {
			return nil, err
		}
		return decode(must(json.Marshal(o)))
	case "application/json":
		return decode(data)
	}
	return string(data), nil
}

// parseCBOR says of a number that it is a float where JSON would not.
func parseCBOR(data []byte) (any, error) {
	var v any
	if err := direct.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("%w: %x", err, data)
	}
	v = each(v, func(v any) any {
		if f, ok := v.(float64); ok && f == math.Trunc(f) {
			return map[string]any{"float": f}
		}
		return v
	})
	return decode(must(json.Marshal(v)))
}

// eventsOf reads a stream of any type, one event after the other.
func eventsOf(kind string, stream io.ReadCloser) func() (any, error) {
	framed := func(frames io.ReadCloser, read func([]byte) (any, error)) func() (any, error) {
		room := make([]byte, 1<<20)
		return func() (any, error) {
			n, err := frames.Read(room)
			if err != nil {
				return nil, err
			}
			return read(room[:n])
		}
	}
	switch kind {
	case cborType + "-seq":
		return framed(cbor.NewFramer().NewFrameReader(stream), parseCBOR)
	case protobufType:
		raw := protobuf.NewRawSerializer(types, types)
		return framed(protobuf.LengthDelimitedFramer.NewFrameReader(stream), func(data []byte) (any, error) {
			var e metav1.WatchEvent
			if _, _, err := raw.Decode(data, nil, &e); err != nil {
				return nil, err
			}
			o, err := parse(protobufType, e.Object.Raw)
			return map[string]any{"type": e.Type, "object": o}, err
		})
	}
	lines := json.NewDecoder(stream)
	return func() (event any, err error) {
		err = lines.Decode(&event)
		return event, err
	}
}

// cbor makes a sequence like others, of objects or of a definition too, whose bodies and answers are of all types that servers with the
// feature gate CBORServingAndStorage know.
func (g *generator) cbor() []step {
	steps := g.sequence
	if g.chance(40) {
		steps = g.definitions
	}
	out := steps()
	for i := range out {
		g.recode(&out[i])
	}
	return out
}

func (g *generator) recode(st *step) {
	const partial, table = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", ";as=Table;g=meta.k8s.io;v=v1"
	if g.chance(70) {
		st.Accept = pick(g, cborType, cborType, cborType+", application/json", "application/json;q=0.5, "+cborType, cborType+partial+", "+cborType, cborType+table+", "+cborType,
			protobufType, protobufType, protobufType+", application/json", protobufType+partial+", application/json", protobufType+table+", application/json", cborType+"-seq", cborType+"-seq, "+cborType)
		if collection, name := divide(strings.Split(st.Path, "?")[0]); st.Method != "POST" && !st.Watch && name == "" && collection != "" {
			st.Accept = strings.ReplaceAll(st.Accept, "PartialObjectMetadata;", "PartialObjectMetadataList;")
		}
		if st.Watch && g.chance(20) {
			st.Accept = pick(g, protobufType+";stream=watch", cborType+";stream=watch", "application/json;stream=watch, "+cborType+"-seq")
		}
	}
	hasBody := st.Body != "" || st.From != ""
	switch {
	case !hasBody || g.chance(20):
	case st.Sent == "":
		st.Sent, st.Typed = pick(g, cborType, cborType, cborType, protobufType, "application/json"), g.chance(40)
	case st.Sent == "application/apply-patch+yaml":
		st.Sent = "application/apply-patch+cbor"
	}
}
