// Package kubectl has the facts about the program kubectl, whose main function is no library.
package kubectl
