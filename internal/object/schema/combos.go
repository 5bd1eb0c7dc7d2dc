package schema

import (
	"fmt"

	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
)

// This file validates allOf, anyOf, oneOf and not. Old values do not matter within them: kube-apiserver does not
// ratchet there.

func (c *validator) combos(k *combos, v any, r *result) {
	if len(k.anyOf) > 0 {
		c.anyOf(k.anyOf, v, r)
	}
	if len(k.oneOf) > 0 && !(r.failed && c.quiet) {
		c.oneOf(k.oneOf, v, r)
	}
	if len(k.allOf) > 0 && !(r.failed && c.quiet) {
		c.allOf(k.allOf, v, r)
	}
	if k.not != nil && !(r.failed && c.quiet) {
		if fits := !c.verdict(k.not, v).failed; fits {
			r.failed = true
			c.add(problem("%q must not validate the schema (not)"))
		}
	}
}

func problem(format string, args ...any) func(at string) error {
	return func(at string) error {
		return openapierrors.New(openapierrors.CompositeErrorCode, format, append([]any{at}, args...)...)
	}
}

// verdict validates v without reporting errors.
func (c *validator) verdict(n *node, v any) result {
	was := c.quiet
	c.quiet = true
	r := c.value(n, v, before{})
	c.quiet = was
	return r
}

func (c *validator) anyOf(list []*node, v any, r *result) {
	for _, n := range list {
		if one := c.verdict(n, v); !one.failed {
			r.matches += one.matches
			return
		}
	}
	r.failed = true
	c.add(problem("%q must validate at least one schema (anyOf)"))
	c.closest(list, v, r)
}

func (c *validator) oneOf(list []*node, v any, r *result) {
	fitting, matches := 0, 0
	for _, n := range list {
		if one := c.verdict(n, v); !one.failed {
			fitting++
			matches = one.matches
		}
	}
	if fitting == 1 {
		r.matches += matches
		return
	}
	r.failed = true
	if fitting > 1 {
		c.add(problem("%q must validate one and only one schema (oneOf). %s", fmt.Sprintf("Found %d valid alternatives", fitting)))
		return
	}
	c.add(problem("%q must validate one and only one schema (oneOf). %s", "Found none valid"))
	c.closest(list, v, r)
}

// closest reports the errors of one of several schemas, none of which v fits: the one with the most matches.
func (c *validator) closest(list []*node, v any, r *result) {
	if c.quiet {
		return
	}
	if c.full {
		return
	}
	start := c.mark()
	var best []error
	most := -1
	for _, n := range list {
		one := c.value(n, v, before{})
		if one.matches > most {
			most = one.matches
			best = append(best[:0], c.found[start.errors:]...)
		}
		c.cut(start)
	}
	for _, err := range best {
		c.put(err)
	}
	r.matches += most
}

func (c *validator) allOf(list []*node, v any, r *result) {
	fitting := 0
	for _, n := range list {
		one := c.value(n, v, before{})
		r.matches += one.matches
		if !one.failed {
			fitting++
		} else if c.quiet {
			r.failed = true
			return
		}
	}
	if fitting == len(list) {
		return
	}
	r.failed = true
	detail := ""
	if fitting == 0 {
		detail = ". None validated"
	}
	c.add(problem("%q must validate all the schemas (allOf)%s", detail))
}
