"""Sessions through a vendor's JMS client, in a JVM inside the client process."""
