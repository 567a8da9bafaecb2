"""The commit protocol, checked: the library's own code over a simulated store, in every order.

What an actor (a writer, a second copy of a job, a cleaner, a reader) asks of the store next depends
on nothing but the answers that it got so far. `actor` makes use of that: it runs the real code up
to a request by giving it those answers again, and remembers what it then asked. `state` puts
actors and a store's content together, and says all that may happen next: whose request is
carried out, refused, lost, late or done twice, or who dies. `explore` tries every order of that,
or some at random. `invariants` looks at each state, and at each end.

An actor's thread pools run each task at once. What they do at the same time touches only names
that no other actor writes, so the order among them changes for others no more than how much of one
writer's work is there already, and every prefix of it is tried.
"""
