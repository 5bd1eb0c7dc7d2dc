package rules

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Errors collects the errors in a value. It knows the value's path; Field, Item and Key step into the value and report
// to the same list.
type Errors struct {
	at     *place
	found  *found
	sloppy bool
}

// At starts to collect errors about the value at path.
func At(path *field.Path) Errors { return Errors{found: new(found)}.Elsewhere(path) }

// Path returns the path of the value.
func (e Errors) Path() *field.Path { return e.at.path() }

// List returns the collected errors.
func (e Errors) List() field.ErrorList { return e.found.list }

// Apart starts a list of its own.
func (e Errors) Apart() Errors { return Errors{e.at, new(found), e.sloppy} }

// Sloppy says whether IP and CIDR take forms that are no longer valid, such as leading zeros, in the whole of the value.
func (e Errors) Sloppy(sloppy bool) Errors { return Errors{e.at, e.found, sloppy} }

// Field steps into a field.
func (e Errors) Field(name string) Errors { return e.step(place{in: e.at, kind: member, name: name}) }

// Item steps into an element of a list.
func (e Errors) Item(i int) Errors { return e.step(place{in: e.at, kind: item, index: i}) }

// Key steps into an entry of a map.
func (e Errors) Key(key string) Errors { return e.step(place{in: e.at, kind: entry, name: key}) }

// Elsewhere returns Errors for another path, for the few rules that report an error at a different field.
func (e Errors) Elsewhere(path *field.Path) Errors { return e.step(place{made: path}) }

func (e Errors) step(to place) Errors { return Errors{e.found.place(to), e.found, e.sloppy} }

// Add adds the errors of other checks.
func (e Errors) Add(list field.ErrorList) {
	if len(list) > 0 {
		e.found.list = append(e.found.list, list...)
	}
}

// AddError adds an error unless it is nil.
func (e Errors) AddError(err *field.Error) {
	if err != nil {
		e.found.list = append(e.found.list, err)
	}
}

// Required reports that the value is missing.
func (e Errors) Required(detail string) { e.AddError(field.Required(e.Path(), detail)) }

// Invalid reports that the value is malformed.
func (e Errors) Invalid(value any, detail string) { e.AddError(field.Invalid(e.Path(), value, detail)) }

// Forbidden reports that the value must not be set.
func (e Errors) Forbidden(detail string) { e.AddError(field.Forbidden(e.Path(), detail)) }

// Immutable reports a field that has changed.
func (e Errors) Immutable(name string, value, old any) {
	e.Add(Immutable(value, old, e.Path().Child(name)))
}

// Duplicate reports that the value occurred before.
func (e Errors) Duplicate(value any) { e.AddError(field.Duplicate(e.Path(), value)) }

// NotFound reports that the value refers to something that does not exist.
func (e Errors) NotFound(value any) { e.AddError(field.NotFound(e.Path(), value)) }

// TooLong reports that the value has more than limit bytes.
func (e Errors) TooLong(limit int) { e.AddError(field.TooLong(e.Path(), "", limit)) }

// Messages reports each message as an Invalid error.
func (e Errors) Messages(value any, messages []string) {
	for _, m := range messages {
		e.Invalid(value, m)
	}
}

// Present reports whether a field is not empty, and adds an error if it is.
func (e Errors) Present(name, value string) bool {
	if value == "" {
		e.Field(name).Required("")
		return false
	}
	return true
}

// Name validates the name in a field.
func (e Errors) Name(name, value string, rule NameRule) {
	if m := rule(value, false); len(m) > 0 {
		e.Field(name).Messages(value, m)
	}
}

// NameRule returns the errors in a name, or, with prefix, in the prefix of a generated one.
type NameRule = func(name string, prefix bool) []string

// Range reports a number in a field that is outside of lo to hi.
func (e Errors) Range(name string, value, lo, hi int64) {
	if value < lo || value > hi {
		e.Field(name).Invalid(value, rangeMessage(lo, hi))
	}
}

// Nonnegative reports a number in a field that is below zero.
func (e Errors) Nonnegative(name string, value int64) {
	if value < 0 {
		e.Field(name).Invalid(value, "must be greater than or equal to 0")
	}
}

// Positive reports a number in a field that is not above zero.
func (e Errors) Positive(name string, value int64) {
	if value <= 0 {
		e.Field(name).Invalid(value, "must be greater than zero")
	}
}

// OneOf reports a value in a field that is not one of the allowed values.
func OneOf[T ~string](e Errors, name string, value T, allowed []T) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	e.AddError(field.NotSupported(e.Path().Child(name), value, allowed))
}

// RequiredOneOf is OneOf, with an empty value reported as missing.
func RequiredOneOf[T ~string](e Errors, name string, value T, allowed []T) {
	if value == "" {
		e.Field(name).Required("")
		return
	}
	OneOf(e, name, value, allowed)
}

// Union counts how many of several alternatives are set. The first is validated, each further one is reported.
type Union struct {
	Errors
	What string // in error messages: "volume type"
	n    int
}

// Count returns how many alternatives are set.
func (u *Union) Count() int { return u.n }

// first counts an alternative and reports whether it is the first.
func (u *Union) first(name string) bool {
	u.n++
	if u.n > 1 {
		u.Field(name).Forbidden("may not specify more than 1 " + u.What)
		return false
	}
	return true
}

// Member validates one alternative, a field that may be nil.
func Member[T any](u *Union, v *T, name string, check func(v *T, e Errors)) {
	if v != nil && u.first(name) {
		check(v, u.Field(name))
	}
}

// MemberAt is Member for an alternative whose errors have a different name in their path, for compatibility.
func MemberAt[T any](u *Union, v *T, name, at string, check func(v *T, e Errors)) {
	if v != nil && u.first(name) {
		check(v, u.Field(at))
	}
}
