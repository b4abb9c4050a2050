package early

import "syscall"

// variable selects the work of a child in its environment.
const variable = "KUBE_HYPER_MINI_CHILD"

// The settings of the variable, for the environment of a child.
const (
	// Guard reads its standard input to the end, see [Orders]. If the last line is
	// Release, the process exits with code 0. Otherwise it continues as usual.
	Guard = variable + "=guard"
	// Command reads a [Message] from MessageFile to its end and becomes that program. If
	// the message is not complete, because the parent has ended, nothing is run.
	Command = variable + "=command"
)

// Release is the last line of the orders for a guard that has nothing to do.
const Release = "release"

const (
	// MessageFile is the file descriptor of a child with [Command] that it reads.
	MessageFile = 3
	// ResultFile is the file descriptor that it writes the number of the error to, in
	// ResultSize bytes, if the program cannot be run; otherwise it is closed.
	ResultFile = 4
	// FreeFile is the first file descriptor that the program may have besides its
	// standard streams.
	FreeFile = 5
	// ResultSize is the length of that number, little-endian.
	ResultSize = 4
)

// The exit codes of a child that runs no program.
const (
	// codeAbandoned: its parent ended before it had sent the message.
	codeAbandoned = 1
	// codeNotExecutable: the program cannot be run.
	codeNotExecutable = 126
)

var orders []byte

// Orders returns what the guard has read from its standard input.
func Orders() []byte { return orders }

func init() {
	switch value, _ := syscall.Getenv(variable); variable + "=" + value {
	case Guard:
		ignoreSignals()
		orders = readAll(syscall.Stdin)
		if released(orders) {
			syscall.Exit(0)
		}
	case Command:
		become()
	}
}

// released reports whether the last line is Release.
func released(text []byte) bool {
	const line = "\n" + Release + "\n"
	return len(text) >= len(line) && string(text[len(text)-len(line):]) == line
}

// Message encodes a program with its arguments, the first of which is its name, and its
// environment, none of which contain a zero byte.
func Message(path string, args, env []string) []byte {
	body := appendUint32(nil, len(args))
	for _, text := range append(append([]string{path}, args...), env...) {
		body = append(append(body, text...), 0)
	}
	return append(appendUint32(nil, len(body)), body...)
}

// parse is the inverse of Message; ok is false if the message is not complete.
func parse(message []byte) (path string, args, env []string, ok bool) {
	const header = 4
	if len(message) < 2*header || int(Uint32(message)) != len(message)-header {
		return "", nil, nil, false
	}
	count := int(Uint32(message[header:]))
	var texts []string
	for rest := message[2*header:]; len(rest) > 0; {
		end := 0
		for end < len(rest) && rest[end] != 0 {
			end++
		}
		if end == len(rest) {
			return "", nil, nil, false
		}
		texts, rest = append(texts, string(rest[:end])), rest[end+1:]
	}
	if len(texts) < 1+count {
		return "", nil, nil, false
	}
	return texts[0], texts[1 : 1+count], texts[1+count:], true
}

func appendUint32(to []byte, n int) []byte {
	return append(to, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

// Uint32 decodes the first 4 bytes, little-endian. It mirrors
// encoding/binary.LittleEndian, which this package must not import.
func Uint32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
