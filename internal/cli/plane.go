package cli

import "errors"

var errNoPlane = errors.New("it is empty: name a ControlPlane")

// planeFlag sets the name of a control plane in a flag. An unset shell variable leaves it empty,
// and the command would act on the server itself.
func planeFlag(plane *string) func(string) error {
	return func(text string) error {
		if text == "" {
			return errNoPlane
		}
		*plane = text
		return nil
	}
}
