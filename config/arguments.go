package config

import "slices"

// Argument is a flag of kube-apiserver with its value, from a command line.
type Argument struct {
	// Name is without dashes.
	Name, Value string
}

// AddArgument adds a flag of kube-apiserver that is set after those of the fields,
// so that it overrides them. It is for commands that take the command line of
// kube-apiserver; a file has APIServer.Flags. A flag may be added more than once.
func (c *ServerConfiguration) AddArgument(name, value string) {
	c.arguments = append(c.arguments, Argument{Name: name, Value: value})
}

// Arguments are the added flags, in their order.
func (c *ServerConfiguration) Arguments() []Argument { return c.arguments }

// HasArgument reports whether one of the flags was added.
func (c *ServerConfiguration) HasArgument(names ...string) bool {
	return slices.ContainsFunc(c.arguments, func(a Argument) bool { return slices.Contains(names, a.Name) })
}
