package manifests

import "strings"

// failures are the errors of several files or objects, one for each. The text of one may
// have several lines.
type failures []error

// Error implements error.
func (f failures) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors.
func (f failures) Unwrap() []error { return f }

// join returns the errors that are not nil as failures; nil if there are none. It takes the
// errors of failures one by one.
func join(errs ...error) error {
	var all failures
	for _, err := range errs {
		if several, ok := err.(failures); ok {
			all = append(all, several...)
		} else if err != nil {
			all = append(all, err)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// count returns the number of failures in an error.
func count(err error) int {
	if several, ok := err.(failures); ok {
		return len(several)
	}
	if err != nil {
		return 1
	}
	return 0
}
