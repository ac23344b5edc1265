"""Tables and charts in Slack: the forms that a render has there, and which of them one message can hold; pure."""
