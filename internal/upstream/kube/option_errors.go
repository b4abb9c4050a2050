package kube

import (
	"strings"
	"unicode"
)

// Upstream fact: an error of the validation of options names its flag in the text
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane/apiserver/options.Options.Validate
//   k8s.io/kubernetes/pkg/kubeapiserver/options.BuiltInAuthorizationOptions.Validate
//   k8s.io/apiserver/pkg/server/options.AdmissionOptions.Validate
//   k8s.io/apiserver/pkg/server/options.APIEnablementOptions.Validate
// Why: the errors have no other mark than the text, and users set fields of a file.
// Gain: an error about a value names the field, and the line of the file.
// Breaks: an error names "apiServer" instead of the field. TestNamesVersion,
//   TestBadConfiguration and TestAPIsThatCannotBeDisabled fail.

// WordsOf returns the words of an error of the validation of options, without dashes
// before and dots after them: among them are the flag, the key or the plugin that the
// error is about.
func WordsOf(err error) map[string]bool {
	words := map[string]bool{}
	for _, word := range strings.FieldsFunc(err.Error(), func(r rune) bool {
		return r != '-' && r != '/' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		words[strings.TrimRight(strings.TrimLeft(word, "-"), ".")] = true
	}
	return words
}

// IsAboutAuthorizationFile reports whether an error of the validation of options is about
// the content of the authorization file.
func IsAboutAuthorizationFile(err error) bool {
	return strings.Contains(err.Error(), "AuthorizationConfiguration")
}

// NamesVersion reports whether the words of an error name a key of runtimeConfig: the key or
// only its group.
func NamesVersion(words map[string]bool, key string) bool {
	group, _, _ := strings.Cut(key, "/")
	return words[key] || words[group] && group != "api" // api/all is a key
}

// NameField replaces a flag in the text of an error of the validation by the field that
// sets it. It replaces the flag where the text has its value, too.
func NameField(text, flag, field string) string {
	return strings.ReplaceAll(text, "--"+flag+"=", field+"=")
}
