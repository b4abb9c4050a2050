//go:build !windows

package early

import "syscall"

// become runs the program of the message in this process. It does not return.
func become() {
	syscall.CloseOnExec(MessageFile)
	syscall.CloseOnExec(ResultFile)
	path, args, env, ok := parse(readAll(MessageFile))
	if !ok {
		syscall.Exit(codeAbandoned)
	}
	err := syscall.Exec(path, args, env)
	if number, ok := err.(syscall.Errno); ok { // package errors is not needed: Exec returns no other type
		_, _ = syscall.Write(ResultFile, appendUint32(nil, int(number))) // the exit code remains
	}
	syscall.Exit(codeNotExecutable)
}

// readAll reads to the end of the input, or to an error.
func readAll(file int) (text []byte) {
	buffer := make([]byte, 4096)
	for {
		n, err := syscall.Read(file, buffer)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return text
		}
		text = append(text, buffer[:n]...)
	}
}
