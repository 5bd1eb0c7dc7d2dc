// Package jsonpatch applies JSON patches (RFC 6902) in bounded time. Results and
// error messages are the same as those of the library that kube-apiserver uses,
// which also decodes the patches here. In that library an insertion copies the
// whole list, and each level of nesting is copied for the levels above it, so
// that 3 MiB of operations take minutes.
package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	library "gopkg.in/evanphx/json-patch.v4"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// ErrCost says that a patch costs too much to apply.
var ErrCost = errors.New("the patch moves, compares or parses too much")

const (
	// maxCost bounds the bytes that are parsed or compared and the items that
	// are moved: about a tenth of a second.
	maxCost = 64 << 20
	// maxCopied bounds the total size of copies by a patch, in bytes: each copy
	// may double the document.
	maxCopied = 3 << 20
	// maxDepth is the deepest nesting of a document, the same as for
	// encoding/json.
	maxDepth = 10_000
)

// patcher is the document that a patch is applied to.
type patcher struct {
	root         *node
	cost, copied int
}

// charge adds to the cost, and returns ErrCost if it becomes too much.
func (p *patcher) charge(n int) error {
	if p.cost += n; p.cost > maxCost {
		return ErrCost
	}
	return nil
}

// Apply returns a document with a patch applied. The document must be valid
// JSON.
func Apply(patch library.Patch, doc []byte) ([]byte, error) {
	p := &patcher{root: &node{raw: doc}}
	if err := p.expand(p.root); err != nil {
		return nil, err
	}
	for _, op := range patch {
		if err := p.do(op); err != nil {
			return nil, err
		}
	}
	out, err := p.root.append(nil, 0)
	if err != nil {
		return nil, err
	}
	escaped, ok := jsonobject.AppendRaw(nil, out, false)
	if !ok {
		return nil, json.Compact(new(bytes.Buffer), out)
	}
	return escaped, nil
}

func (p *patcher) do(op library.Operation) error {
	switch kind := op.Kind(); kind {
	case "add":
		return p.add(op)
	case "remove":
		return p.remove(op)
	case "replace":
		return p.replace(op)
	case "move":
		return p.move(op)
	case "test":
		return p.test(op)
	case "copy":
		return p.copy(op)
	default:
		//lint:ignore ST1005 these are the words that clients know
		return fmt.Errorf("Unexpected kind: %s", kind)
	}
}

// value returns the value of an operation; nil: it has none, or null.
func value(op library.Operation) *node {
	if raw := op["value"]; raw != nil {
		return &node{raw: *raw}
	}
	return nil
}

func (p *patcher) add(op library.Operation) error {
	path, err := op.Path()
	if err != nil {
		return fmt.Errorf("add operation failed to decode path: %w", library.ErrMissing)
	}
	in, key, err := p.find(path)
	if err != nil {
		return err
	}
	if in == nil {
		return fmt.Errorf("add operation does not apply: doc is missing path: \"%s\": %w", path, library.ErrMissing)
	}
	return wrap(p.insert(in, key, value(op)), "error in add for path: '%s'", path)
}

// wrap adds to an error what failed for which path. It returns ErrCost
// unchanged.
func wrap(err error, format, path string) error {
	if err == nil || errors.Is(err, ErrCost) {
		return err
	}
	return fmt.Errorf(format+": %w", path, err)
}

func (p *patcher) remove(op library.Operation) error {
	path, err := op.Path()
	if err != nil {
		return fmt.Errorf("remove operation failed to decode path: %w", library.ErrMissing)
	}
	in, key, err := p.find(path)
	if err != nil {
		return err
	}
	if in == nil {
		return fmt.Errorf("remove operation does not apply: doc is missing path: \"%s\": %w", path, library.ErrMissing)
	}
	return wrap(p.drop(in, key), "error in remove for path: '%s'", path)
}

func (p *patcher) replace(op library.Operation) error {
	path, err := op.Path()
	if err != nil {
		return fmt.Errorf("replace operation failed to decode path: %w", err)
	}
	v := value(op)
	if path == "" {
		return p.replaceRoot(v)
	}
	in, key, err := p.find(path)
	if err != nil {
		return err
	}
	if in == nil {
		return fmt.Errorf("replace operation does not apply: doc is missing path: %s: %w", path, library.ErrMissing)
	}
	if in.kind == object {
		in.fields[key] = v // even if the field did not exist
		return nil
	}
	at, err := in.index(key)
	if err != nil {
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", path, library.ErrMissing)
	}
	in.items[at] = v
	return nil
}

func (p *patcher) replaceRoot(v *node) error {
	if v != nil {
		if err := p.expand(v); err != nil {
			return err
		}
	}
	if v == nil || v.kind == raw {
		return errors.New("replace operation value must be object or array: %!w(<nil>)") // the library's message
	}
	p.root = v
	return nil
}

func (p *patcher) move(op library.Operation) error {
	from, err := op.From()
	if err != nil {
		return fmt.Errorf("move operation failed to decode from: %w", err)
	}
	in, key, err := p.find(from)
	if err != nil {
		return err
	}
	if in == nil {
		return fmt.Errorf("move operation does not apply: doc is missing from path: %s: %w", from, library.ErrMissing)
	}
	v, err := in.get(key)
	if err == nil {
		err = p.drop(in, key)
	}
	if err != nil {
		return wrap(err, "error in move for path: '%s'", key)
	}
	path, err := op.Path()
	if err != nil {
		return fmt.Errorf("move operation failed to decode path: %w", err)
	}
	if in, key, err = p.find(path); err != nil {
		return err
	}
	if in == nil {
		return fmt.Errorf("move operation does not apply: doc is missing destination path: %s: %w", path, library.ErrMissing)
	}
	return wrap(p.insert(in, key, v), "error in move for path: '%s'", path)
}

func (p *patcher) test(op library.Operation) error {
	path, err := op.Path()
	if err != nil {
		return fmt.Errorf("test operation failed to decode path: %w", err)
	}
	v := p.root
	if path != "" {
		in, key, err := p.find(path)
		if err != nil {
			return err
		}
		if in == nil {
			return fmt.Errorf("test operation does not apply: is missing path: %s: %w", path, library.ErrMissing)
		}
		if v, err = in.get(key); err != nil {
			return fmt.Errorf("error in test for path: '%s': %w", path, err)
		}
	}
	same, err := p.equal(v, value(op))
	if err == nil && !same {
		err = fmt.Errorf("testing value %s failed: %w", path, library.ErrTestFailed)
	}
	return err
}

func (p *patcher) copy(op library.Operation) error {
	from, err := op.From()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode from: %w", err)
	}
	in, key, err := p.find(from)
	if err != nil {
		return err
	}
	if in == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing from path: %s: %w", from, library.ErrMissing)
	}
	v, err := in.get(key)
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", from, err)
	}
	path, err := op.Path()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode path: %w", library.ErrMissing)
	}
	if in, key, err = p.find(path); err != nil {
		return err
	}
	if in == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing destination path: %s: %w", path, library.ErrMissing)
	}
	if v, err = p.duplicate(v); err != nil {
		return err
	}
	if err := p.insert(in, key, v); errors.Is(err, ErrCost) {
		return err
	} else if err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}

// duplicate copies a value, within the bound of all copies.
func (p *patcher) duplicate(v *node) (*node, error) {
	if v == nil {
		return nil, nil
	}
	b, err := v.append(nil, 0)
	if err != nil {
		return nil, err
	}
	if p.copied += len(b); p.copied > maxCopied {
		return nil, library.NewAccumulatedCopySizeError(maxCopied, int64(p.copied))
	}
	return &node{raw: b}, nil
}
