package logs

import (
	"regexp"
	"strconv"
	"syscall"
)

// Upstream fact: bbolt formats errors for its logger with %w
//
// Mirrors: go.etcd.io/bbolt.Tx.write go.etcd.io/bbolt.DB.grow
// Why: fmt supports %w in Errorf only, and writes "%!w(*fs.PathError=...)".
// Gain: the message of a full disk can be read.
// Breaks: the message is the library's own. TestPlainErrors fails if fmt writes such errors
//   differently.

// badVerb is the output of fmt for an error that is formatted with %w outside of
// fmt.Errorf.
var badVerb = regexp.MustCompile(`%!w\((?:\*fs\.PathError=&\{(\S+) (.+?) (\d+)\}|syscall\.Errno=(\d+)|\*errors\.errorString=&\{(.+?)\}|<nil>)\)`)

// PlainErrors replaces the errors in a message of etcd or bbolt that were formatted
// with the wrong verb by their text.
func PlainErrors(message string) string {
	return badVerb.ReplaceAllStringFunc(message, func(found string) string {
		parts := badVerb.FindStringSubmatch(found)
		switch {
		case parts[1] != "":
			return parts[1] + " " + parts[2] + ": " + errno(parts[3])
		case parts[4] != "":
			return errno(parts[4])
		case parts[5] != "":
			return parts[5]
		default:
			return "no error"
		}
	})
}

func errno(digits string) string {
	number, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return digits
	}
	return syscall.Errno(number).Error()
}
