package controllers

import (
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	for name, test := range map[string]struct {
		list           []string
		want, unwanted []string
	}{
		"the default":      {[]string{"*"}, []string{"namespace-controller", "garbage-collector-controller"}, []string{"bootstrap-signer-controller"}},
		"one more":         {[]string{"*", "bootstrap-signer-controller"}, []string{"namespace-controller", "bootstrap-signer-controller"}, []string{"token-cleaner-controller"}},
		"one less":         {[]string{"*", "-namespace-controller"}, []string{"garbage-collector-controller"}, []string{"namespace-controller"}},
		"one alone":        {[]string{"namespace-controller"}, []string{"namespace-controller"}, []string{"garbage-collector-controller"}},
		"none":             {nil, nil, Names()},
		"off wins over on": {[]string{"namespace-controller", "-namespace-controller"}, nil, []string{"namespace-controller"}},
	} {
		t.Run(name, func(t *testing.T) {
			selected, err := Select(test.list)
			if err != nil {
				t.Fatal(err)
			}
			got := " " + strings.Join(selected, " ") + " "
			for _, want := range test.want {
				if !strings.Contains(got, " "+want+" ") {
					t.Errorf("%s is missing in%s", want, got)
				}
			}
			for _, unwanted := range test.unwanted {
				if strings.Contains(got, " "+unwanted+" ") {
					t.Errorf("%s is in%s", unwanted, got)
				}
			}
		})
	}
	if _, err := Select([]string{"*", "-nodes"}); err == nil || !strings.Contains(err.Error(), "nodes; the controllers are: ") {
		t.Errorf("an unknown controller: %v", err)
	}
}
