package engine

import (
	"bytes"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// Links has the fields of a stored object that relate it to others: its
// identity, its owners and its finalizers. They are read from the stored bytes,
// without decoding the object.
type Links struct {
	UID        types.UID
	Deleting   bool // it has a deletionTimestamp
	Finalizers []string
	Owners     []metav1.OwnerReference
}

// Has says whether a finalizer holds the object.
func (l *Links) Has(finalizer string) bool { return slices.Contains(l.Finalizers, finalizer) }

// Fields of ObjectMeta, by their numbers in protobuf.
const (
	metaUID               = 5
	metaDeletionTimestamp = 9
	metaOwnerReferences   = 13
	metaFinalizers        = 14
)

// LinksOf reads the links from a stored value, in either encoding.
func LinksOf(value []byte) (Links, error) {
	if isJSON(value) {
		return jsonLinks(value)
	}
	if len(value) == 0 {
		return Links{}, errNoPrefix // the log has keys without values that are no objects
	}
	raw, err := rawOf(value)
	if err != nil {
		return Links{}, err
	}
	meta, _, err := objectMeta(raw)
	if err != nil {
		return Links{}, err
	}
	var l Links
	for len(meta) > 0 {
		num, val, rest, err := wireField(meta)
		if err != nil {
			return Links{}, err
		}
		switch num {
		case metaUID:
			l.UID = types.UID(val)
		case metaDeletionTimestamp:
			l.Deleting = true
		case metaFinalizers:
			l.Finalizers = append(l.Finalizers, string(val))
		case metaOwnerReferences:
			var ref metav1.OwnerReference
			if err := ref.Unmarshal(val); err != nil {
				return Links{}, err
			}
			l.Owners = append(l.Owners, ref)
		}
		meta = rest
	}
	return l, nil
}

func jsonLinks(value []byte) (Links, error) {
	var meta struct {
		UID               types.UID
		DeletionTimestamp json.RawMessage
		Finalizers        []string
		OwnerReferences   []metav1.OwnerReference
	}
	found := jsonobject.Find(value, "metadata")
	if found == nil {
		return Links{}, errWire
	}
	if err := json.Unmarshal(found, &meta); err != nil {
		return Links{}, err
	}
	deleting := len(meta.DeletionTimestamp) > 0 && !bytes.Equal(meta.DeletionTimestamp, []byte("null"))
	return Links{UID: meta.UID, Deleting: deleting, Finalizers: meta.Finalizers, Owners: meta.OwnerReferences}, nil
}
