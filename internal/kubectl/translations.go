package kubectl

import "github.com/chai2010/gettext-go"

// DropTranslations releases the translations of kubectl's messages, which its
// packages load when a process starts. A process that does not call [Run] has no
// use for them.
func DropTranslations() { gettext.BindLocale(gettext.New("none", "", nil)) }
