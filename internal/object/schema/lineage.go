package schema

// lineage knows whether a value, or a value around it, has changed, so that rules that unchanged values already broke
// do not block an update.
type lineage struct {
	// own is the value with its old value; nil: it has none.
	own *pair
	// parent is the pair of the closest enclosing value that has one.
	parent *pair
}

// pair is a value and its old value.
type pair struct {
	ratchet    *ratchet
	node       *node
	value, old any
	olds       oldItems
	hasOlds    bool
	compared   bool
	equal      bool
}

func (p *pair) unchanged() bool {
	if p == nil {
		return false
	}
	if !p.compared {
		p.compared, p.equal = true, p.ratchet.same(p.node, p.value, p.old)
	}
	return p.equal
}

func (l lineage) unchanged() bool {
	if l.own != nil {
		return l.own.unchanged()
	}
	return l.parent.unchanged()
}

// field returns the lineage of a field of an object.
func (l lineage) field(name string) lineage {
	if l.own == nil {
		return l
	}
	if l.parent == nil && (name == "apiVersion" || name == "kind") {
		return lineage{} // old and new have the same version, whatever the stored version
	}
	out := lineage{parent: l.own}
	value, _ := l.own.value.(map[string]any)
	old, _ := l.own.old.(map[string]any)
	was, ok := old[name]
	n := l.own.node.property(name)
	if n == nil {
		n = l.own.node.extra
	}
	if ok && n != nil {
		out.own = &pair{ratchet: l.own.ratchet, node: n, value: value[name], old: was}
	}
	return out
}

// item returns the lineage of an item of a list.
func (l lineage) item(i int) lineage {
	if l.own == nil {
		return l
	}
	out := lineage{parent: l.own}
	list, _ := l.own.value.([]any)
	if !l.own.hasOlds {
		l.own.olds, l.own.hasOlds = l.own.node.oldItems(before{value: l.own.old}), true
	}
	if was := l.own.olds.of(list[i]); was.known {
		out.own = &pair{ratchet: l.own.ratchet, node: l.own.node.items, value: list[i], old: was.value}
	}
	return out
}
