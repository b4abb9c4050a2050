package console

import (
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestLargeIntegers: integers that numbers of JavaScript round keep their digits where objects
// are shown, made and changed; a change of another field does not touch them.
func TestLargeIntegers(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/new/cloud.example.org/v1/volumes?ns=shop")
	volume := func(name, fields string) string {
		return "apiVersion: cloud.example.org/v1\nkind: Volume\nmetadata: {name: " + name + ", namespace: shop}\nspec: " + fields + "\n"
	}
	p.write(volume("made", "{id: 9007199254740993, least: -9223372036854775808, count: 3}"))
	p.click("Review")
	p.sees("dry run", "9007199254740993")
	p.click("Create")
	p.sees("Metadata", "9007199254740993", "-9223372036854775808")
	const numbers = "jsonpath={.spec.id} {.spec.least} {.spec.count}"
	harness.Contains(t, s.Kubectl("", "get", "volume", "made", "-n", "shop", "-o", numbers), "9007199254740993 -9223372036854775808 3")

	// What kubectl owns is in no conflict with a text that has the same.
	s.Kubectl(volume("applied", "{id: 9007199254740995, count: 3}"), "apply", "--server-side", "-f", "-")
	p.visit("#/object/cloud.example.org/v1/volumes/shop/applied?tab=yaml")
	p.sees("id: 9007199254740995")
	s.Kubectl(volume("applied", "{id: 9007199254740997, count: 3}"), "apply", "--server-side", "-f", "-")
	p.sees("id: 9007199254740997") // by the watch
	p.visit("#/edit/cloud.example.org/v1/volumes/shop/applied")
	p.sees("id: 9007199254740997")
	p.write(volume("applied", "{id: 9007199254740997, count: 3, note: mine}"))
	p.click("Review")
	p.sees("dry run", "note: mine")
	p.click("Apply")
	p.sees("Metadata")
	harness.Contains(t, s.Kubectl("", "get", "volume", "applied", "-n", "shop", "-o", "jsonpath={.spec.id} {.spec.note}"), "9007199254740997 mine")
}
