package envtest

import "slices"

// Arguments are flags.
type Arguments struct {
	names  []string
	values map[string][]string
	preset map[string]bool // flags that nobody has set yet
}

// EmptyArguments makes arguments without any.
func EmptyArguments() *Arguments { return &Arguments{} }

// Set sets a flag to values.
func (a *Arguments) Set(name string, values ...string) *Arguments {
	a.Disable(name)
	return a.Append(name, values...)
}

// Append adds values to a flag.
func (a *Arguments) Append(name string, values ...string) *Arguments {
	if a.values == nil {
		a.values = map[string][]string{}
	}
	if _, ok := a.values[name]; !ok {
		a.names = append(a.names, name)
	}
	a.values[name] = append(a.values[name], values...)
	return a
}

// AppendNoDefaults adds values to those that were set, and leaves out what was there before.
func (a *Arguments) AppendNoDefaults(name string, values ...string) *Arguments {
	if a.preset[name] {
		a.Disable(name)
	}
	return a.Append(name, values...)
}

// withDefault sets a flag as a default.
func (a *Arguments) withDefault(name, value string) *Arguments {
	a.Set(name, value)
	a.preset = map[string]bool{name: true}
	return a
}

// Enable gives a flag without a value.
func (a *Arguments) Enable(name string) *Arguments { return a.Set(name) }

// Disable leaves a flag out.
func (a *Arguments) Disable(name string) *Arguments {
	delete(a.values, name)
	delete(a.preset, name)
	a.names = slices.DeleteFunc(a.names, func(n string) bool { return n == name })
	return a
}

// AsStrings returns the flags as on a command line.
func (a *Arguments) AsStrings() []string {
	var out []string
	for _, n := range a.names {
		if len(a.values[n]) == 0 {
			out = append(out, "--"+n)
		}
		for _, v := range a.values[n] {
			out = append(out, "--"+n+"="+v)
		}
	}
	return out
}
