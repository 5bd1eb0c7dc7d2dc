package extension_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kanzen-io/kanzen/pkg/extension"
)

type common struct {
	Name string `json:"name"`
}

type tree struct {
	Children []tree `json:"children,omitempty"`
}

// every has a field of each kind.
type every struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	common            `json:",inline"`

	Text     *string                `json:"text,omitempty" doc:"A text."`
	Yes      bool                   `json:"yes,omitempty" default:"true"`
	Small    int32                  `json:"small,omitempty"`
	Large    uint64                 `json:"large,omitzero"`
	Ratio    float64                `json:"ratio"`
	At       metav1.Time            `json:"at,omitempty"`
	Then     time.Time              `json:"then,omitempty"`
	For      metav1.Duration        `json:"for,omitempty"`
	Bytes    []byte                 `json:"bytes,omitempty"`
	Port     intstr.IntOrString     `json:"port,omitempty"`
	Amount   resource.Quantity      `json:"amount,omitempty"`
	Names    map[string]common      `json:"names,omitempty"`
	Raw      json.RawMessage        `json:"raw,omitempty"`
	Any      any                    `json:"any,omitempty"`
	Tree     tree                   `json:"tree,omitempty"`
	Hidden   string                 `json:"-"`
	Template corev1.PodTemplateSpec `json:"template,omitempty"`
}

func TestSchemaOf(t *testing.T) {
	p, err := extension.SchemaOf[every]()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"name", "ratio"}; !reflect.DeepEqual(p.Required, want) {
		t.Errorf("required %v, want %v", p.Required, want)
	}
	for name, want := range map[string]string{
		"metadata": `{"type":"object"}`,
		"name":     `{"type":"string"}`,
		"text":     `{"description":"A text.","type":"string"}`,
		"yes":      `{"type":"boolean","default":true}`,
		"small":    `{"type":"integer","format":"int32"}`,
		"large":    `{"type":"integer","format":"int64"}`,
		"ratio":    `{"type":"number"}`,
		"at":       `{"type":"string","format":"date-time"}`,
		"then":     `{"type":"string","format":"date-time"}`,
		"for":      `{"type":"string"}`,
		"bytes":    `{"type":"string","format":"byte"}`,
		"port":     `{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}`,
		"amount":   `{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}`,
		"names":    `{"type":"object","additionalProperties":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}}`,
		"raw":      `{"x-kubernetes-preserve-unknown-fields":true}`,
		"any":      `{"x-kubernetes-preserve-unknown-fields":true}`,
		"tree":     `{"type":"object","properties":{"children":{"type":"array","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}`,
	} {
		got, err := json.Marshal(p.Properties[name])
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"apiVersion", "kind", "Hidden", "common"} {
		if _, ok := p.Properties[name]; ok {
			t.Errorf("there is a field %s", name)
		}
	}
	image := p.Properties["template"].Properties["spec"].Properties["containers"].Items.Schema.Properties["image"]
	if image.Type != "string" || image.Description == "" {
		t.Errorf("the image of a container is %v", image)
	}
}

func TestNoSchemaOf(t *testing.T) {
	for name, f := range map[string]func() error{
		"a scalar":        func() error { _, err := extension.SchemaOf[int](); return err },
		"no metadata":     func() error { _, err := extension.SchemaOf[common](); return err },
		"unstructured":    func() error { _, err := extension.SchemaOf[unstructured.Unstructured](); return err },
		"no form as JSON": func() error { _, err := extension.SchemaOf[struct{ C chan int }](); return err },
	} {
		if f() == nil {
			t.Errorf("%s has a schema", name)
		}
	}
}
